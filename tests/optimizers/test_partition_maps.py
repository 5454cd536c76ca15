"""When a map of keys is replaced: skew that a new map would end, and what that costs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.deployment import Deployment
from millrace.model.errors import MillraceError
from millrace.model.key_map import HOT_KEYS, HotKey, KeyMap, KeySample
from millrace.model.partitioning import expanded, hashed_sketch, skew
from millrace.optimizers.api import Memory, Proposal
from millrace.optimizers.conformance.builders import APP, NOON, app_signals, deployment, signals
from millrace.optimizers.partition_maps import PartitionMaps, PartitionOptions
from millrace.optimizers.registry import Role, create
from tests.examples import examples

WORKERS = 4


def sample(hot: dict[int, int], rows: int = 40_000, **changes: Any) -> KeySample:
    keys = tuple(HotKey(key, f"area {key}", n) for key, n in sorted(hot.items(), key=lambda of: -of[1]))
    return replace(KeySample(APP, APP, 1, NOON, "areas", ("area",), WORKERS, None, rows, keys), **changes)


SKEWED = sample({17: 16_000, -4: 8_000, 5: 100})
SHIFTED = sample({91: 16_000, -66: 8_000, 17: 100})


def asked(
    of: KeySample, current: Deployment | None = None, memory: Memory | None = None, at_s: float = 0.0, **options: Any
) -> tuple[Proposal, Memory, Deployment]:
    """Return the answer, and the Deployment after its changes."""
    current = current or deployment(WORKERS)
    time = NOON + timedelta(seconds=at_s)
    seen = replace(signals(app_signals(WORKERS, 1.0, None), until=time), keys=(replace(of, time=time),))
    proposal, kept = PartitionMaps(PartitionOptions(**options)).propose(seen, current, memory or {})
    after = replace(current.with_changes(proposal.changes), version=current.version + len(proposal.changes))
    return proposal, json.loads(json.dumps(kept)), after


def skew_of(current: Deployment, of: KeySample) -> float:
    hot = {key.key: float(key.rows) for key in of.hot}
    return skew(expanded(current.partitioning["areas"]), hashed_sketch(of.rows, hot))


def test_skewed_keys_get_a_map_that_ends_the_skew_and_says_so() -> None:
    proposal, _, after = asked(SKEWED)
    (change,) = proposal.changes
    assert (change.app, change.field, change.operator) == (APP, "partition_map", "areas")
    assert (change.before, change.value) == (0, 2)
    assert change.key_map is not None and set(change.key_map.hot) <= {17, -4, 5}
    assert skew_of(after, SKEWED) < 1.01 and proposal.predicted["key_skew_ratio"] < 1.01
    assert proposal.reason_code == "keys_skewed"
    assert proposal.sentence == (
        "the most loaded of 4 workers gets 1.99 times the mean, with another map 1.00, "
        "by a sample of 40,000 rows; 'area 17' has 40 %, 2 keys are split, and 30 % of the rows move"
    )


def test_published_method_splits_keys_by_frequency_and_leaves_more_skew() -> None:
    published, _, after = asked(SKEWED, method="paper_hash")
    assert published.reason_code == "keys_skewed" and "2 keys are split" in published.sentence
    assert 1.01 < skew_of(after, SKEWED) < 1.99
    _, _, again = asked(SHIFTED, after, {}, 60, method="paper_hash")
    assert again.partitioning["areas"].hot == asked(SHIFTED, method="paper_hash")[2].partitioning["areas"].hot


def test_map_in_use_stays_while_it_is_even_and_for_gains_that_are_too_small() -> None:
    _, kept, after = asked(SKEWED)
    stay, kept, _ = asked(SKEWED, after, kept, 60)
    assert not stay.changes and stay.reason_code == "keys_even"
    assert (
        stay.sentence
        == "areas: the most loaded of 4 workers gets 1.00 times the mean, and no other map is worth the change"
    )
    slightly = sample({17: 17_000, -4: 8_000, 5: 100})
    assert not asked(slightly, after, {}, 60)[0].changes
    assert asked(slightly, after, {}, 60, least_gain=0.0, move_cost=0.0)[0].changes


def test_moved_rows_must_be_paid_for() -> None:
    _, _, after = asked(SKEWED)
    moved = sample({17: 12_000, -4: 8_000, 91: 6_000})
    assert asked(moved, after, {}, move_cost=0.1)[0].changes
    assert not asked(moved, after, {}, move_cost=10.0)[0].changes


def test_few_rows_do_not_replace_a_map() -> None:
    small = sample({17: 8, -4: 4}, rows=20)
    assert not asked(small)[0].changes and asked(SKEWED)[0].changes


def test_other_hot_keys_get_a_new_map_once_older_samples_have_faded() -> None:
    proposal, kept, current = asked(SKEWED, half_life_s=30)
    changed_at = []
    for number in range(1, 8):
        proposal, kept, current = asked(SHIFTED, current, kept, 30 * number, half_life_s=30)
        changed_at += [number] * len(proposal.changes)
    assert 1 <= changed_at[0] <= 3 and skew_of(current, SHIFTED) < 1.15
    revisions = [0, current.partitioning["areas"].revision]
    assert revisions == sorted(revisions) and current.version == 2 + len(changed_at)


def test_another_number_of_workers_gets_a_map_from_the_one_in_use() -> None:
    _, kept, after = asked(SKEWED)
    more = sample({17: 16_000, -4: 8_000, 5: 100}, workers=5)
    proposal, _, then = asked(more, after, kept, 10)
    assert proposal.reason_code == "other_workers" and "for 4 workers, and 5 run" in proposal.sentence
    before, now = expanded(after.partitioning["areas"]), expanded(then.partitioning["areas"])
    of = hashed_sketch(more.rows, {k.key: float(k.rows) for k in more.hot})
    assert now.workers == 5 and skew(now, of) < 1.02 and now.moved(before, of) < 0.25


def test_map_for_other_columns_is_replaced_without_regard_to_it() -> None:
    _, kept, after = asked(SKEWED)
    other = replace(SHIFTED, columns=("city", "street"))
    proposal, kept, then = asked(other, after, kept, 10)
    assert set(kept["keys"]["areas"]["hot"]) == {"91", "-66", "17"} and kept["keys"]["areas"]["rows"] == 40_000
    assert proposal.reason_code == "keys_skewed" and then.partitioning["areas"].columns == ("city", "street")
    assert then.partitioning["areas"].revision > after.partitioning["areas"].revision


def test_several_names_have_maps_of_their_own_and_memory_stays_small() -> None:
    both = (SKEWED, replace(SHIFTED, name="cars", columns=("car",)))
    seen = replace(signals(app_signals(WORKERS, 1.0, None)), keys=both)
    proposal, _ = PartitionMaps(PartitionOptions()).propose(seen, deployment(WORKERS), {})
    assert [c.operator for c in proposal.changes] == ["areas", "cars"] and "areas: " in proposal.sentence
    memory: Memory = {}
    for number in range(6):
        many = sample({1000 * number + i: 10 for i in range(HOT_KEYS)})
        _, memory, _ = asked(many, None, memory, number)
    assert len(memory["keys"]["areas"]["hot"]) == HOT_KEYS and len(json.dumps(memory)) < 8_000


def test_without_samples_nothing_is_said_and_memory_stays() -> None:
    seen = signals(app_signals(WORKERS, 1.0, None))
    memory = {"keys": {"areas": 5}}
    proposal, kept = PartitionMaps(PartitionOptions()).propose(seen, deployment(WORKERS), memory)
    assert (proposal.changes, proposal.sentence, proposal.reason_code, kept) == ((), "", "no_keys", memory)


@examples(30)
@given(
    hot=st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.integers(1, 20_000), max_size=12),
    others=st.integers(0, 20_000),
    workers=st.integers(1, 12),
)
def test_proposed_map_is_never_more_skewed_than_the_one_in_use(hot: dict[int, int], others: int, workers: int) -> None:
    rows = sum(hot.values()) + others
    of = sample(hot, rows=max(rows, 1), workers=workers)
    proposal, _, after = asked(of)
    if proposal.changes:
        plain = expanded(KeyMap(1, (), workers))
        of_all = hashed_sketch(of.rows, {k: float(n) for k, n in hot.items()})
        assert skew_of(after, of) <= skew(plain, of_all) - 0.09


def test_options_out_of_range_are_errors() -> None:
    with pytest.raises(MillraceError, match=r"partitioning\.options\.half_life_s"):
        create("waterfill", {"half_life_s": 0.0}, Role.PARTITIONING)
