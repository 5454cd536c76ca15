"""Assignments of streams with hindsight, and the fewest nodes."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.fleet import methods
from benchmarks.fleet.assignments import even, needed, overloads, packed


def fixed(rates: np.ndarray, node: list[int]) -> np.ndarray:
    return np.broadcast_to(np.array(node), rates.shape)


def test_nodes_are_needed_by_what_fits_and_at_least_one() -> None:
    rates = np.array([[6.0, 6.0, 6.0], [4.0, 3.0, 3.0], [5.0, 5.0, 5.0], [0.0, 0.0, 0.0]])
    assert needed(rates, 10.0).tolist() == [3, 1, 2, 1]


def test_node_is_overloaded_in_the_periods_in_which_more_arrives_than_it_takes() -> None:
    rates = np.array([[6.0, 4.0, 5.0], [6.0, 5.0, 5.0], [6.0, 5.0, 11.0]])
    assert overloads(rates, fixed(rates, [0, 0, 1]), 10.0) == 1 + 2
    moved = np.array([[0, 0, 1], [0, 1, 1], [0, 2, 1]])
    assert overloads(rates, moved, 10.0) == 1


def test_packing_puts_opposite_streams_on_one_node() -> None:
    rates = np.array([[8.0, 1.0, 8.0, 1.0], [1.0, 8.0, 1.0, 8.0]])
    node = packed(rates, 10.0, 6)
    assert node.max() == 1 and overloads(rates, np.broadcast_to(node, rates.shape), 10.0) == 0


def test_packing_takes_another_node_if_the_fewest_would_be_overloaded() -> None:
    rates = np.array(
        [[6.0, 4.0, 1.0, 1.0], [4.0, 6.0, 5.0, 5.0]]
    )  # the second period fits two nodes, not with the first
    assert needed(rates, 10.0).max() == 2
    node = packed(rates, 10.0, 6)
    assert overloads(rates, np.broadcast_to(node, rates.shape), 10.0) == 0


def test_packing_stops_at_the_most_nodes() -> None:
    rates = np.full((1, 8), 9.0)
    assert packed(rates, 10.0, 3).max() == 2


def test_even_nodes_get_as_many_streams_each() -> None:
    assert np.bincount(even(40, 3)).tolist() == [14, 13, 13]


def test_methods_start_where_the_load_at_night_fits_and_fixed_ones_where_the_peak_does() -> None:
    node = methods.NODE_ROWS_PER_S
    rates = np.vstack([np.full((9, 10), node / 15), np.full((1, 10), node / 3.75)])
    assert methods.on_one(rates).max() == 0
    assert methods.by_count(rates).max() == 0  # 1.2 nodes on average
    assert methods.on_fewest(rates).max() + 1 == needed(rates, node).max() + 1 == 4


@pytest.mark.parametrize("method", methods.METHODS, ids=lambda method: method.name)
def test_methods_run_the_same_function_on_equal_nodes(method: methods.Method, tmp_path) -> None:
    first = method.place(np.full((4, 40), 10.0))
    spec = methods.PipelineSpec.model_validate_json(
        methods.spec_for(tmp_path, method, first, 15.0).model_dump_json()  # as the controller reads it
    )
    assert spec.fleet is not None
    nodes = spec.fleet.nodes
    if method.planner:
        assert (nodes.min, nodes.max, nodes.start) == (1, methods.MOST_NODES, 1)
        assert spec.admission is not None and spec.admission.options == {"method": method.planner}
    else:
        assert nodes.min == nodes.max == nodes.start == first.max() + 1
    ours = methods.spec_for(tmp_path, methods.OURS, methods.on_one(np.zeros((1, 40))), 15.0)
    apps = spec.first_deployment().apps.values()
    same = ours.first_deployment().apps["node0"]
    assert {(a.script, a.args, a.slots, a.memory_mb) for a in apps} == {
        (same.script, same.args, same.slots, same.memory_mb)
    }
