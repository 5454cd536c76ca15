from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given

from benchmarks.albic.rivals.cola import place
from millrace.optimizers.albic.problem import UNPLACED, Problem
from tests.examples import examples
from tests.optimizers.albic.jobs import collocation, pairs, problem, problems


@given(problems())
@examples(60)
def test_place_puts_every_group_on_a_kept_node(given: Problem) -> None:
    node = place(given).node
    assert not given.removed[node].any()
    assert node.shape == given.node.shape


def test_place_when_one_to_one_then_pairs_meet_on_even_nodes() -> None:
    given = pairs(100, 20, 10)
    node = place(given).node
    assert collocation(given, node) >= 0.95
    assert given.distance(node) <= 10
    assert given.spent(node) > given.budget, "COLA knows no budget"


def test_place_when_no_part_fits_then_parts_are_split_until_they_do() -> None:
    # one component of 12 equal groups on 5 nodes: five parts are 2 or 3 groups, and 20 points are too much for one
    edges = [(k, k + 1, 1.0) for k in range(11)]
    given = problem([0] * 12, nodes=5, load=20.0, edges=edges, saved=0.0)
    coarse, fine = place(given, max_distance=1000).node, place(given, max_distance=12.1).node
    assert given.distance(fine) <= max(12.1, given.distance(coarse))


def test_place_when_nothing_has_a_place_then_it_is_a_first_placement() -> None:
    fresh = replace(pairs(40, 8, 0), node=np.full(80, UNPLACED))
    node = place(fresh).node
    assert fresh.spent(node) == 0
    assert collocation(fresh, node) >= 0.9


def test_place_when_nodes_are_unequal_then_larger_ones_get_more() -> None:
    given = replace(pairs(60, 3, 10), capacity=np.array([4.0, 1.0, 1.0]))
    raw = given.loads(place(given).node) * given.capacity
    assert raw[0] > 2 * raw[1:].max()


def test_place_when_repeated_then_is_the_same() -> None:
    given = pairs(50, 7, 10)
    np.testing.assert_array_equal(place(given, seed=2).node, place(given, seed=2).node)
