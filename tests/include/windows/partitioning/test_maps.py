"""Maps of keys to workers, without Spark."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.errors import MillraceError
from millrace.model.ring import of_groups
from millrace.windows.partitioning import PartitionMap, Sketch, plan
from millrace.windows.partitioning.sketch import canonical
from tests.examples import examples

G = 16


@st.composite
def sketches(draw: Any) -> Sketch:
    cold = np.array(draw(st.lists(st.integers(0, 30), min_size=G, max_size=G)), dtype=float)
    rows = draw(st.lists(st.tuples(st.integers(1, 5000), st.integers(0, G - 1)), max_size=6))
    for count, group in rows:
        cold[group] += count
    return Sketch(cold, {(i,): (float(count), group) for i, (count, group) in enumerate(rows)})


def zipf(exponent: float, keys: int = 4096, total: float = 1e6) -> Sketch:
    weight = 1 / np.arange(1, keys + 1) ** exponent
    rows = weight / weight.sum() * total
    group = np.random.default_rng(1).integers(0, 4096, keys)
    frequent = {(i,): (float(rows[i]), int(group[i])) for i in range(500)}
    return Sketch(np.bincount(group, rows, 4096), frequent)


def load_ratio(made: PartitionMap, of: Sketch) -> float:
    load = made.load(of)
    return float(load.std() / load.mean())


@examples(50)
@given(
    of=sketches(),
    workers=st.integers(1, 9),
    hot=st.integers(0, 12),
    method=st.sampled_from(["waterfill", "paper_hash"]),
)
def test_plan_gives_all_rows_a_worker_and_shares_add_up(of: Sketch, workers: int, hot: int, method: str) -> None:
    made = plan(of, workers, hot_keys=hot, method=method)
    assert made.load(of).sum() == pytest.approx(of.total)
    assert ((made.groups >= 0) & (made.groups < workers)).all()
    for shares in made.hot.values():
        assert sum(shares.values()) == pytest.approx(1)
        assert all(share > 0 and 0 <= worker < workers for worker, share in shares.items())


@examples(50)
@given(of=sketches(), workers=st.integers(1, 9), hot=st.integers(0, 12))
def test_waterfill_from_nothing_has_few_pairs_and_no_full_worker(of: Sketch, workers: int, hot: int) -> None:
    made = plan(of, workers, hot_keys=hot)
    split = len(made.hot)
    assert made.pairs <= max(0, split + workers - 1)
    quota, cold = of.total / workers, of.cold(of.hottest(hot))
    load = made.load(of)
    for worker in range(workers):
        only_cold = cold[made.groups == worker].sum()
        assert load[worker] <= max(quota, only_cold) * (1 + 1e-6) + 1e-6
    if len(of.frequent) <= hot and not cold.any() and of.total:
        assert load == pytest.approx(np.full(workers, quota))


@examples(50)
@given(of=sketches(), steps=st.lists(st.integers(1, 9), min_size=2, max_size=5))
def test_waterfill_when_workers_change_then_no_full_worker_gets_more(of: Sketch, steps: list[int]) -> None:
    before = plan(of, steps[0], hot_keys=12)
    for workers in steps[1:]:
        made = plan(of, workers, hot_keys=12, before=before)
        kept = np.zeros(workers)
        kept[: min(workers, before.workers)] = before.load(of)[:workers]
        gone = before.load(of)[workers:].sum() if workers < before.workers else 0
        above = np.maximum(kept - of.total / workers, 0).sum()
        cold = of.cold(of.hottest(12))
        # groups are moved whole: those of removed workers may first go to full ones
        slack = 2 * cold.sum() if workers < before.workers else 0
        assert made.moved(before, of) * max(of.total, 1) <= gone + above + slack + 1e-3 * max(of.total, 1)
        before = made


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5, 2.0])
def test_waterfill_of_zipf_keys_is_even_with_few_pairs_and_moves(exponent: float) -> None:
    of = zipf(exponent)
    made = plan(of, 16)
    assert load_ratio(made, of) < 0.005
    assert made.pairs <= 200 + 16
    more = plan(of, 17, before=made)
    assert load_ratio(more, of) < 0.01
    assert more.moved(made, of) <= 1.1 / 17


def test_paper_hash_balances_better_with_more_split_keys() -> None:
    of = zipf(1.5)
    ratios = [load_ratio(plan(of, 16, method="paper_hash", hot_keys=k), of) for k in (0, 5, 20, 100)]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] > 1
    top = of.hottest(101)
    made = plan(of, 16, method="paper_hash", hot_keys=100)
    parts = math.ceil(of.frequent[top[0]][0] / of.frequent[top[100]][0])
    assert all(
        (share * parts) % 1 == pytest.approx(0, abs=1e-6) or (share * parts) % 1 == pytest.approx(1)
        for share in made.hot[top[0]].values()
    )


def test_ring_moves_only_a_new_workers_share() -> None:
    before, after = of_groups(1 << 15, 16), of_groups(1 << 15, 17)
    changed = before != after
    assert (after[changed] == 16).all()
    assert changed.mean() == pytest.approx(1 / 17, rel=0.2)
    assert np.bincount(before).std() / np.bincount(before).mean() < 0.12


@pytest.mark.parametrize("method", ["waterfill", "paper_hash"])
def test_plan_of_one_key_or_none_lets_workers_share_it_or_idle(method: str) -> None:
    groups = np.zeros(G)
    empty = plan(Sketch(groups, {}), 5, method=method)
    assert empty.hot == {} and empty.load(Sketch(groups, {})).sum() == 0
    groups[3] = 100
    single = Sketch(groups, {(None,): (100.0, 3)})
    if method == "waterfill":
        assert plan(single, 8).load(single) == pytest.approx(np.full(8, 12.5))
    assert plan(single, 1, method=method).load(single) == pytest.approx([100])


@examples(50)
@given(a=sketches(), b=sketches(), capacity=st.integers(1, 20))
def test_sketch_merge_loses_no_row_and_adds_frequent_keys(a: Sketch, b: Sketch, capacity: int) -> None:
    b = Sketch(b.groups, {k: v for k, v in b.frequent.items() if k not in a.frequent or a.frequent[k][1] == v[1]})
    merged = Sketch(a.groups, a.frequent, capacity).merge(Sketch(b.groups, b.frequent, capacity))
    assert merged.total == a.total + b.total
    assert len(merged.frequent) <= capacity
    for key, (rows, _) in merged.frequent.items():
        assert rows == a.frequent.get(key, (0,))[0] + b.frequent.get(key, (0,))[0]
    assert (merged.cold(list(merged.frequent)) >= 0).all()


def test_canonical_nan_or_zero_keys_are_one_key() -> None:
    assert canonical((float("nan"), None)) == canonical((math.nan, None))
    assert str(canonical((-0.0,))) == str(canonical((0.0,)))
    assert canonical((False, 0)) == (False, 0)


def test_plan_when_arguments_are_bad_then_error_names_them() -> None:
    of = zipf(1.0)
    for options, key in (
        ({"hot_keys": -1}, "hot_keys"),
        ({"method": "modulo"}, "method"),
        ({"hot_keys": True}, "hot_keys"),
    ):
        with pytest.raises(MillraceError) as caught:
            plan(of, 4, **options)
        assert caught.value.key == key
    for workers in (0, 2.5, True):
        with pytest.raises(MillraceError, match="workers"):
            plan(of, workers)
    other = Sketch(np.zeros(7), {})
    with pytest.raises(MillraceError, match="key_groups"):
        of.merge(other)
    with pytest.raises(MillraceError, match="before"):
        plan(of, 4, before=plan(other, 4))
