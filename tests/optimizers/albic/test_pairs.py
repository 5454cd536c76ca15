from __future__ import annotations

import numpy as np

from optimizers.albic.pairs import components, downstream, heavy
from tests.optimizers.albic.jobs import ints, pairs, problem

FULL = [(k, j, 1.0) for k in range(4) for j in range(4, 8)]
"""Four groups that each pass as much to each of four."""


def test_heavy_when_all_is_spread_evenly_then_no_pair_is() -> None:
    spread = problem([0, 1] * 4, nodes=2, edges=FULL, operator=[0] * 4 + [1] * 4)
    assert not heavy(spread).any()


def test_heavy_when_one_to_one_then_every_pair_is() -> None:
    assert heavy(pairs(10, 5, 5)).all()


def test_heavy_when_only_edges_that_carry_something_count_then_one_to_one_is_never_collocated() -> None:
    # the other reading of avg(g_i): a group's only edge is exactly its average
    assert not heavy(pairs(10, 5, 5), zero_edges=False).any()


def test_heavy_when_an_edge_carries_just_the_factor_then_it_is_not_beyond_it() -> None:
    edges = [(0, 1, 3.0), (0, 2, 1.0)]  # avg is 4 / 2 = 2
    at = problem([0, 1, 1], nodes=2, edges=edges, operator=[0, 1, 1])
    assert heavy(at, 1.5).tolist() == [False, False]
    assert heavy(at, 1.49).tolist() == [True, False]


def test_downstream_when_two_operators_follow_then_counts_the_groups_of_both() -> None:
    forked = problem([0] * 6, nodes=1, edges=[(0, 1, 1.0), (0, 3, 1.0)], operator=[0, 1, 1, 2, 2, 2])
    assert downstream(forked)[0] == 5
    assert downstream(forked)[1:].tolist() == [0] * 5


def test_heavy_when_a_group_passes_rows_to_itself_then_that_is_no_pair() -> None:
    looped = problem([0, 1], nodes=2, edges=[(0, 0, 9.0)], operator=[0, 1])
    assert not heavy(looped).any()


def test_components_when_a_chain_joins_groups_then_they_share_a_label() -> None:
    label = components(5, ints([0, 1, 3]), ints([1, 2, 4]))
    assert label[0] == label[1] == label[2] != label[3] == label[4]
    assert len(np.unique(label)) == 2
