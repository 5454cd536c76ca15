from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from millrace.model.errors import MillraceError
from millrace.optimizers.albic.balancer import balance
from millrace.optimizers.albic.joint_prices import JointOptions
from millrace.optimizers.albic.joint_search import place
from millrace.optimizers.albic.problem import UNPLACED, Caps, Flows, Problem
from tests.examples import examples
from tests.optimizers.albic.jobs import after, chains, ints, pairs, problem, problems


@given(problems())
@examples(60)
def test_place_makes_a_whole_plan_within_the_budget(given: Problem) -> None:
    plan = place(given)
    assert plan.node.shape == given.node.shape
    assert ((plan.node >= 0) & (plan.node < given.nodes)).all()
    assert given.spent(plan.node) <= given.budget + 1e-9
    came = given.removed[plan.node] & (plan.node != given.node)
    assert not came.any(), "a group moved onto a node that is marked for removal"
    assert plan.bound <= given.distance(plan.node) + 1e-9


@given(problems())
@settings(max_examples=15, deadline=None)
def test_place_when_repeated_then_is_the_same(given: Problem) -> None:
    np.testing.assert_array_equal(place(given, seed=3).node, place(given, seed=3).node)


@pytest.mark.parametrize(("seed", "periods"), [(0, 11), (1, 11), (2, 11), (3, 11), (4, 12)])
def test_place_when_groups_pair_up_then_all_meet_as_soon_as_possible(seed: int, periods: int) -> None:
    given = pairs(100, 20, 10, seed)
    worst = 0.0
    for _ in range(periods):
        given = after(given, place(given, seed=seed).node)
        worst = max(worst, given.distance(given.node))
    assert given.collocation(given.node) == 1.0
    assert worst <= 7.0
    for _ in range(4):
        given = after(given, place(given, seed=seed).node)
    assert given.distance(given.node) <= 1.0
    assert given.collocation(given.node) == 1.0


def test_place_when_groups_form_chains_then_each_ends_on_one_node() -> None:
    given = chains(5, 6, 5, budget=4)
    for _ in range(math.ceil(given.groups / given.budget)):
        given = after(given, place(given).node)
    assert given.collocation(given.node) == 1.0
    assert given.distance(given.node) <= 1e-9


def test_place_without_a_target_leaves_chains_broken() -> None:
    given = chains(5, 6, 5, budget=4)
    for _ in range(math.ceil(given.groups / given.budget)):
        given = after(given, place(given, options=JointOptions(guided=False)).node)
    assert given.collocation(given.node) < 1.0


def test_place_when_all_is_spread_evenly_then_the_plan_is_the_balancers() -> None:
    rng = np.random.default_rng(1)
    edges = [(k, j, 1.0) for k in range(20) for j in range(20, 40)]
    node = rng.integers(0, 5, 40)
    given = problem(
        node, nodes=5, load=rng.uniform(3, 7, 40), edges=edges, saved=0.02, budget=5, operator=[0] * 20 + [1] * 20
    )
    np.testing.assert_array_equal(place(given).node, balance(given).node)


def test_place_when_there_is_no_gain_then_nothing_moves() -> None:
    even = problem([0, 0, 1, 1], nodes=2, edges=[(0, 1, 4.0), (2, 3, 4.0)], operator=[0, 1, 0, 1], budget=4)
    assert not len(even.moved(place(even).node))


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
    assert not marked.removed[plan.node].any()
    assert plan.node[2] == plan.node[3]
    assert plan.node[5] == plan.node[4]


def test_place_when_groups_leave_then_collocated_pairs_stay_whole() -> None:
    given = pairs(20, 5, 100)
    for _ in range(2):
        given = after(given, place(given).node)
    assert given.collocation(given.node) == 1.0
    removed = np.zeros(5, dtype=bool)
    removed[0] = True
    given = replace(given, removed=removed)
    plan = place(given)
    assert not removed[plan.node].any()
    assert given.collocation(plan.node) == 1.0


def test_place_when_nothing_has_a_place_then_partitions_for_free() -> None:
    fresh = replace(pairs(20, 5, 0.0), node=np.full(40, UNPLACED))
    plan = place(fresh)
    assert fresh.collocation(plan.node) >= 0.9
    assert fresh.spent(plan.node) == 0
    assert fresh.distance(plan.node) <= 10


def test_place_when_a_cap_is_reached_then_brings_no_partner_there() -> None:
    given = problem([0, 1], nodes=2, edges=[(0, 1, 4.0)], operator=[0, 1], budget=1)
    assert given.collocation(place(given, options=JointOptions(least_gain=0)).node) in (0.0, 1.0)
    full = replace(given, caps=Caps(np.array([[1.0, 1.0]]), np.array([[1.5, 1.5]])))
    assert not len(full.moved(place(full).node))


def test_place_when_one_node_is_left_then_puts_everything_there() -> None:
    lonely = problem([0, 1, 1], nodes=2, edges=[(0, 1, 4.0)], budget=3, removed=[1])
    assert (place(lonely).node == 0).all()


def test_place_when_there_are_no_groups_then_the_plan_is_empty() -> None:
    none = problem([], nodes=2, load=[])
    assert len(place(none).node) == 0


def test_place_when_partners_save_load_then_the_mean_falls() -> None:
    given = pairs(10, 5, 20)
    plan = place(given)
    assert given.mean(plan.node) < given.mean(given.node)
    assert given.distance(plan.node) <= given.distance(given.node) + 1.0


def test_place_when_savings_are_unknown_then_the_busiest_pairs_meet() -> None:
    given = pairs(20, 5, 100)
    blind = replace(given, flows=replace(given.flows, saved=np.zeros(20)))
    plan = place(blind)
    assert blind.collocation(plan.node) >= 0.9


def test_place_when_a_plan_would_be_far_off_then_balances_first() -> None:
    # all load on one node, and partners there too: collocation alone would leave it there
    edges = [(k, k + 10, 1.0) for k in range(10)]
    given = problem(
        [0] * 10 + [1] * 10,
        nodes=2,
        load=[8.0] * 10 + [0.5] * 10,
        edges=edges,
        saved=0.1,
        budget=4,
        operator=[0] * 10 + [1] * 10,
    )
    plan = place(given)
    assert given.distance(plan.node) <= given.distance(balance(given).node) + 10


@pytest.mark.parametrize(("name", "value"), [("tolerance", 0.0), ("factor", math.nan), ("least_gain", -0.1)])
def test_options_when_out_of_range_then_say_what_is_allowed(name: str, value: float) -> None:
    with pytest.raises(MillraceError, match=f"joint.{name}"):
        JointOptions(**{name: value})


def test_place_when_flows_carry_nothing_then_the_balancer_decides() -> None:
    idle = problem([0, 0, 0, 1], nodes=2, edges=[(0, 3, 0.0)], budget=1)
    assert idle.distance(place(idle).node) == 0.0
    assert isinstance(idle.flows, Flows)
    assert ints([0]).dtype == np.intp
