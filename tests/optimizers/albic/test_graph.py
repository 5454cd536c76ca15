from __future__ import annotations

import numpy as np

from millrace.optimizers.albic.graph import components, downstream, heavy, partition
from tests.optimizers.albic.jobs import ints, pairs, problem

FULL = [(k, j, 1.0) for k in range(4) for j in range(4, 8)]
"""Four groups that each pass as much to each of four."""


def test_heavy_when_all_is_spread_evenly_then_finds_no_pair() -> None:
    spread = problem([0, 1] * 4, nodes=2, edges=FULL, operator=[0] * 4 + [1] * 4)
    assert not heavy(spread).any()


def test_heavy_when_one_to_one_then_finds_every_pair() -> None:
    assert heavy(pairs(10, 5, 5)).all()


def test_heavy_when_an_edge_carries_exactly_the_factor_then_is_not_heavy() -> None:
    at, above = (
        problem([0, 1, 1], nodes=2, edges=[(0, 1, rate), (0, 2, 1.0)], operator=[0, 1, 1]) for rate in (3.0, 3.1)
    )
    assert heavy(at).tolist() == [False, False]  # avg is 4 / 2 = 2
    assert heavy(above).tolist() == [True, False]


def test_downstream_when_two_operators_follow_then_counts_both() -> None:
    forked = problem([0] * 6, nodes=1, edges=[(0, 1, 1.0), (0, 3, 1.0)], operator=[0, 1, 1, 2, 2, 2])
    assert downstream(forked)[0] == 5
    assert downstream(forked)[1:].tolist() == [0] * 5


def test_heavy_when_a_group_passes_rows_to_itself_then_finds_no_pair() -> None:
    looped = problem([0, 1], nodes=2, edges=[(0, 0, 9.0)], operator=[0, 1])
    assert not heavy(looped).any()


def test_components_when_a_chain_joins_groups_then_they_share_a_label() -> None:
    label = components(5, ints([0, 1, 3]), ints([1, 2, 4]))
    assert label[0] == label[1] == label[2] != label[3] == label[4]
    assert len(np.unique(label)) == 2


def _cliques(count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.nonzero(np.triu(np.ones((size, size)), 1))
    starts = np.arange(count) * size
    return ints((starts[:, None] + first).ravel()), ints((starts[:, None] + second).ravel())


def test_partition_when_there_are_cliques_then_none_is_cut() -> None:
    ends = _cliques(8, 6)
    parts = partition(np.ones(48), ends, np.ones(len(ends[0])), 4)
    assert (parts[ends[0]] == parts[ends[1]]).all()
    assert np.bincount(parts).tolist() == [12, 12, 12, 12]


def test_partition_when_repeated_then_is_the_same() -> None:
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 200, 800), rng.integers(0, 200, 800)
    worth = rng.random(800)
    found = [partition(rng0, ends, worth, 7, seed=5) for rng0 in (np.ones(200), np.ones(200))]
    np.testing.assert_array_equal(*found)


def test_partition_when_shares_differ_then_parts_do() -> None:
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 300, 900), rng.integers(0, 300, 900)
    size = np.bincount(partition(np.ones(300), ends, np.ones(900), 3, shares=np.array([0.5, 0.25, 0.25])))
    assert abs(size[0] - 150) <= 10


def test_partition_when_vertices_are_few_then_each_is_alone() -> None:
    assert partition(np.ones(3), (ints([0]), ints([1])), np.ones(1), 5).tolist() == [0, 1, 2]


def test_partition_of_one_part_or_nothing_runs_no_partitioner() -> None:
    assert partition(np.ones(3), (ints([0]), ints([1])), np.ones(1), 1).tolist() == [0, 0, 0]
    assert len(partition(np.ones(0), (ints([]), ints([])), np.ones(0), 3)) == 0


def test_partition_when_nothing_has_weight_then_still_makes_parts() -> None:
    parts = partition(np.zeros(10), (ints([0, 1]), ints([0, 2])), np.zeros(2), 2)
    assert set(parts.tolist()) == {0, 1}
