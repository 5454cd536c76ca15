from __future__ import annotations

import numpy as np

from optimizers.albic.partition import partition
from tests.optimizers.albic.jobs import ints


def _cliques(count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.nonzero(np.triu(np.ones((size, size)), 1))
    starts = np.arange(count) * size
    return ints((starts[:, None] + first).ravel()), ints((starts[:, None] + second).ravel())


def test_partition_when_there_are_cliques_then_none_is_cut() -> None:
    ends = _cliques(8, 6)
    parts = partition(np.ones(48), ends, np.ones(len(ends[0])), 4)
    assert (parts[ends[0]] == parts[ends[1]]).all()
    assert np.bincount(parts).tolist() == [12, 12, 12, 12]


def test_partition_when_asked_twice_then_says_the_same() -> None:
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


def test_partition_when_there_are_fewer_vertices_than_parts_then_each_is_alone() -> None:
    assert partition(np.ones(3), (ints([0]), ints([1])), np.ones(1), 5).tolist() == [0, 1, 2]


def test_partition_when_there_is_one_part_or_nothing_then_asks_nobody() -> None:
    assert partition(np.ones(3), (ints([0]), ints([1])), np.ones(1), 1).tolist() == [0, 0, 0]
    assert len(partition(np.ones(0), (ints([]), ints([])), np.ones(0), 3)) == 0


def test_partition_when_nothing_weighs_anything_and_no_edge_counts_then_there_still_are_parts() -> None:
    parts = partition(np.zeros(10), (ints([0, 1]), ints([0, 2])), np.zeros(2), 2)
    assert set(parts.tolist()) == {0, 1}
