"""Maps of keys in short, as Deployments have them, and the sketches that they are made from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.codec import from_json, to_json
from millrace.model.deployment import PARTITION_MAP, AppDeployment, Change, Deployment
from millrace.model.errors import MillraceError
from millrace.model.key_map import HOT_KEYS, KEY_GROUPS, KeyMap
from millrace.model.partitioning import LEAST_ROWS, expanded, hashed_sketch, hot_keys, shortened, skew
from millrace.model.waterfill import waterfill
from tests.examples import examples

LONGEST = 2**63
HASHES = st.integers(-LONGEST, LONGEST - 1)
HOT = st.dictionaries(HASHES, st.integers(1, 1000).map(float), max_size=20)
CURRENT = Deployment("p", 3, True, {"a": AppDeployment("x", (), 2, 1024, 8)})
MAP = KeyMap(4, ("area",), 2, hot={-7: {0: 0.25, 1: 0.75}}, moved={3: 1})


@examples(40)
@given(hot=HOT, others=st.integers(0, 5000), workers=st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_map_in_short_and_back_sends_rows_to_the_same_workers(
    hot: dict[int, float], others: int, workers: list[int]
) -> None:
    of = hashed_sketch(sum(hot.values()) + others, hot)
    made = None
    for number in workers:
        made = waterfill(of, number, HOT_KEYS, made)
        short = shortened(made, 7, ["area"])
        assert from_json(KeyMap, to_json(short)) == short
        again = expanded(short)
        assert (again.groups == made.groups).all() and again.workers == number
        assert again.load(of) == pytest.approx(made.load(of), abs=1e-3 * max(of.total, 1))
        assert len(short.hot) <= len(hot) and all(
            sum(s.values()) == pytest.approx(1, abs=1e-4) for s in short.hot.values()
        )


def test_map_of_even_keys_is_empty_and_the_largest_is_small() -> None:
    even = hashed_sketch(10_000, {})
    assert shortened(waterfill(hashed_sketch(0, {}), 4, HOT_KEYS), 1, ["a"]) == KeyMap(1, ("a",), 4)
    assert skew(waterfill(even, 4, HOT_KEYS), even) < 1.01
    draws = np.random.default_rng(3)
    hot = {
        int(key): float(rows) for key, rows in zip(draws.integers(-LONGEST, LONGEST, 128), range(9, 1000), strict=False)
    }
    made = waterfill(hashed_sketch(200_000, hot), 7, HOT_KEYS, waterfill(even, 16, HOT_KEYS))
    assert len(to_json(shortened(made, 99, ["area", "city"]))) < 20_000


def test_sketch_of_hashes_spreads_the_keys_that_were_not_counted() -> None:
    of = hashed_sketch(3000, {-5: 1000.0, 2**62 + 1: 976.0})
    assert of.total == pytest.approx(3000) and of.frequent[(-5,)] == (1000.0, KEY_GROUPS - 5)
    assert of.cold([(-5,), (2**62 + 1,)]) == pytest.approx(np.full(KEY_GROUPS, 1.0))
    assert hashed_sketch(1, {9: 5.0}).total == 5  # counts may be estimates


def test_keys_are_placed_by_themselves_only_if_chance_does_not_explain_their_counts() -> None:
    rare = {key: 1.0 + LEAST_ROWS - 1 for key in range(5)} | {key: LEAST_ROWS - 1.0 for key in range(5, 9)}
    assert hot_keys(hashed_sketch(500, rare), 4) == 5
    assert hot_keys(hashed_sketch(10**6, {1: 2600.0, 2: 2400.0}), 4) == 1  # a hundredth of a worker's 250,000


def test_change_of_a_map_is_a_version_that_restarts_nothing_and_can_be_undone() -> None:
    change = Change("a", PARTITION_MAP, 0, 4, operator="areas", key_map=MAP)
    after = CURRENT.with_changes((change,))
    assert CURRENT.value(change) == 0 and after.value(change) == 4 and after.partitioning == {"areas": MAP}
    assert not CURRENT.restarts(after) and after.apps == CURRENT.apps and after.content != CURRENT.content
    assert from_json(Deployment, to_json(after)) == replace(after, partitioning={"areas": MAP})
    assert from_json(Deployment, to_json(CURRENT)).partitioning == {}
    again = after.with_changes((replace(change, before=4, value=5, key_map=replace(MAP, revision=5, moved={})),))
    assert again.partitioning["areas"].moved == {} and again.content != after.content
    # the same revision is the same question, though later samples give a slightly different map
    assert CURRENT.with_changes((replace(change, key_map=replace(MAP, moved={5: 0})),)).content == after.content
    stored = '{"pipeline":"p","version":1,"running":true,"apps":{}}'
    assert from_json(Deployment, stored).partitioning == {}


@pytest.mark.parametrize("wrong", [{"key_map": None}, {"operator": None}])
def test_change_without_its_map_or_name_is_an_error(wrong: dict[str, None]) -> None:
    change = Change("a", PARTITION_MAP, 0, 4, operator="areas", key_map=MAP)
    with pytest.raises(MillraceError, match="key_map"):
        CURRENT.with_changes((replace(change, **wrong),))
