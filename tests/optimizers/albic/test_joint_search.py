from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from millrace.optimizers.albic.balancer import balance
from millrace.optimizers.albic.joint_search import collocate
from millrace.optimizers.albic.problem import UNPLACED, Caps, Problem
from millrace.optimizers.arrays import Ints
from tests.examples import examples
from tests.optimizers.albic.jobs import after, chains, collocation, pairs, problem, problems


def place(given: Problem, *, seed: int = 0) -> Ints:
    """Return the placement, or the present one if there is nothing to collocate."""
    node = collocate(given, seed=seed)
    return given.node if node is None else node


@given(problems())
@examples(60)
def test_collocate_places_every_group_within_the_budget(given: Problem) -> None:
    node = collocate(given)
    if node is None:
        return
    assert node.shape == given.node.shape
    assert ((node >= 0) & (node < given.nodes)).all()
    assert given.spent(node) <= given.budget + 1e-9
    came = given.removed[node] & (node != given.node)
    assert not came.any(), "a group moved onto a node that is marked for removal"


@given(problems())
@settings(max_examples=15, deadline=None)
def test_place_when_repeated_then_is_the_same(given: Problem) -> None:
    np.testing.assert_array_equal(place(given, seed=3), place(given, seed=3))


@pytest.mark.parametrize(("seed", "periods"), [(0, 11), (1, 11), (2, 11), (3, 11), (4, 12)])
def test_place_when_groups_pair_up_then_all_meet_as_soon_as_possible(seed: int, periods: int) -> None:
    given = pairs(100, 20, 10, seed)
    worst = 0.0
    for _ in range(periods):
        given = after(given, place(given, seed=seed))
        worst = max(worst, given.distance(given.node))
    assert collocation(given, given.node) == 1.0
    assert worst <= 7.0
    for _ in range(4):
        given = after(given, place(given, seed=seed))
    assert given.distance(given.node) <= 1.0
    assert collocation(given, given.node) == 1.0


def test_place_when_groups_form_chains_then_each_ends_on_one_node() -> None:
    given = chains(5, 6, 5, budget=4)
    for _ in range(math.ceil(given.groups / given.budget)):
        given = after(given, place(given))
    assert collocation(given, given.node) == 1.0
    assert given.distance(given.node) <= 1e-9


def test_place_when_there_is_no_gain_then_nothing_moves() -> None:
    even = problem([0, 0, 1, 1], nodes=2, edges=[(0, 1, 4.0), (2, 3, 4.0)], operator=[0, 1, 0, 1], budget=4)
    assert not len(even.moved(place(even)))


def test_place_when_a_node_is_marked_then_its_groups_leave_together() -> None:
    marked = problem(
        [0, 1, 2, 1, 0, 2],
        nodes=3,
        edges=[(0, 1, 4.0), (2, 3, 4.0), (5, 4, 4.0)],
        operator=[0, 1, 0, 1, 1, 0],
        budget=2,
        removed=[2],
    )
    plan = place(marked)
    assert not marked.removed[plan].any()
    assert plan[2] == plan[3]
    assert plan[5] == plan[4]


def test_place_when_groups_leave_then_collocated_pairs_stay_whole() -> None:
    given = pairs(20, 5, 100)
    for _ in range(2):
        given = after(given, place(given))
    assert collocation(given, given.node) == 1.0
    removed = np.zeros(5, dtype=bool)
    removed[0] = True
    given = replace(given, removed=removed)
    plan = place(given)
    assert not removed[plan].any()
    assert collocation(given, plan) == 1.0


def test_place_when_nothing_has_a_place_then_partitions_for_free() -> None:
    fresh = replace(pairs(20, 5, 0.0), node=np.full(40, UNPLACED))
    plan = place(fresh)
    assert collocation(fresh, plan) >= 0.9
    assert fresh.spent(plan) == 0
    assert fresh.distance(plan) <= 10


def test_place_when_a_cap_is_reached_then_brings_no_partner_there() -> None:
    given = problem([0, 1], nodes=2, edges=[(0, 1, 4.0)], operator=[0, 1], budget=1)
    full = replace(given, caps=Caps(np.array([[1.0, 1.0]]), np.array([[1.5, 1.5]])))
    assert not len(full.moved(place(full)))


def test_place_when_partners_save_load_then_the_mean_falls() -> None:
    given = pairs(10, 5, 20)
    plan = place(given)
    assert given.mean(plan) < given.mean(given.node)
    assert given.distance(plan) <= given.distance(given.node) + 1.0


def test_nothing_to_collocate_is_no_placement() -> None:
    rng = np.random.default_rng(1)
    every = [(k, j, 1.0) for k in range(20) for j in range(20, 40)]
    spread = problem(rng.integers(0, 5, 40), nodes=5, load=20.0, edges=every, saved=0.02, operator=[0] * 20 + [1] * 20)
    idle = problem([0, 0, 0, 1], nodes=2, edges=[(0, 3, 0.0)], budget=1)
    lonely = problem([0, 1, 1], nodes=2, edges=[(0, 1, 4.0)], budget=3, removed=[1])
    assert all(collocate(given) is None for given in (spread, idle, lonely, problem([], nodes=2, load=[])))


def test_balance_comes_first_if_a_placement_would_be_far_off() -> None:
    # all load on one node, and partners there too: collocation alone would leave it there
    edges = [(k, k + 10, 1.0) for k in range(10)]
    operator, load = [0] * 10 + [1] * 10, [8.0] * 10 + [0.5] * 10
    given = problem([0] * 10 + [1] * 10, nodes=2, load=load, edges=edges, saved=0.1, budget=4, operator=operator)
    node = collocate(given)
    assert node is None or given.distance(node) <= given.distance(balance(given).node) + 10
