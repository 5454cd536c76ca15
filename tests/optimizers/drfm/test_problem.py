from dataclasses import replace

import numpy as np
import pytest

from millrace.model.errors import MillraceError
from millrace.optimizers.drfm.problem import NEW, Plan, match_nodes, oversized, renumber
from tests.optimizers.drfm.instances import problem

GOOD = problem([[1.0, 2.0, 3.0], [2.0, 2.0, 2.0]], [0, 1, NEW], nodes=2)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"rate": np.array([1.0, -1.0, 1.0])}, "rate[1]"),
        ({"rate": np.ones(2)}, "rate"),
        ({"mean": np.array([[1.0, 2.0, 3.0], [1.0, np.nan, 1.0]])}, "mean[1, 1]"),
        ({"mean": np.array([[1.0, 2.0, 3.0], [1.0, np.inf, 1.0]])}, "mean[1, 1]"),
        ({"mean": np.zeros((0, 3))}, "mean"),
        ({"variance": -np.ones((2, 3))}, "variance[0, 0]"),
        ({"capacity": 0.0}, "capacity"),
        ({"capacity": float("nan")}, "capacity"),
        ({"node": np.array([0, 2, 0])}, "node"),
        ({"node": np.array([0, -2, 0])}, "node"),
        ({"latency_s": np.ones(3)}, "latency_s"),
        ({"running": (0, 2)}, "running"),
        ({"latency_s": np.array([0.0, np.nan])}, "latency_s[1]"),
    ],
)
def test_problem_when_a_field_is_bad_then_is_refused_by_name(changes, key):
    with pytest.raises(MillraceError) as caught:
        replace(GOOD, **changes)

    assert caught.value.key == key


def test_sums_when_a_stream_is_new_then_leave_it_out():
    assert GOOD.sums(GOOD.rate).tolist() == [1.0, 2.0]


def test_redirected_are_moved_streams_that_had_a_node():
    assert Plan(np.array([1, 1, 0]), oversized(GOOD)).redirected(GOOD).tolist() == [0]


def test_oversized_when_a_stream_is_faster_than_a_node_then_names_it():
    assert oversized(problem([3.0, 10.5, 10.0], [0, 0, 0])).tolist() == [1]


def test_match_nodes_when_a_node_suits_two_bins_then_more_streams_win():
    assert match_nodes(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 0]), 2).tolist() == [0, 0, 0, 1]


def test_match_nodes_numbers_further_bins_behind_the_nodes():
    assert match_nodes(np.array([0, 1, 2]), np.array([1, -1, -1]), 2).tolist() == [1, 0, 2]
    assert match_nodes(np.array([0, 1, 2]), np.array([0, 0, 0]), 1).tolist() == [0, 1, 2]


def test_renumber_keeps_nodes_that_always_run_apart_from_others():
    node, before = np.array([5, 5, 0, 6]), np.array([0, 0, 2, NEW])
    assert renumber(node, before, 3, ()).tolist() == [0, 0, 2, 1]
    assert renumber(node, before, 3, (0,)).tolist() == [1, 1, 0, 2]
    assert renumber(node, np.zeros(4, dtype=int), 1, (0,)).tolist() == [1, 1, 0, 2], "the rest comes behind the nodes"
