from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.optimizers.albic.assignment import Assignment
from millrace.optimizers.albic.balance_bound import bound_of
from millrace.optimizers.albic.balance_problem import balance_problem
from millrace.optimizers.albic.balancer import balance
from millrace.optimizers.albic.problem import Caps, Flows, Problem
from tests.examples import examples
from tests.optimizers.albic.instances import assert_valid, least_distance, pins, problem, problems, uneven, used

FEW = examples(60)
TINY = examples(40)


@FEW
@given(problems(), st.integers(0, 3))
def test_plan_of_any_valid_problem_keeps_every_limit(posed, seed):
    assert_valid(posed, balance(posed, seed=seed))


@TINY
@given(st.data())
def test_plan_when_groups_are_pinned_then_pins_hold_or_those_groups_stay(data):
    posed = data.draw(problems(groups=8, nodes=4))
    pinned = data.draw(pins(posed))
    plan = balance(posed, pinned=pinned)

    assert_valid(posed, plan)
    asked = pinned >= 0
    if "pins dropped" in plan.stage:
        stays = asked & (posed.node >= 0)
        assert (plan.node[stays] == posed.node[stays]).all()
    else:
        assert (plan.node[asked] == pinned[asked]).all()


@TINY
@given(st.data())
def test_bound_is_undercut_by_none_of_all_plans(data):
    posed = data.draw(problems(groups=5, nodes=3))
    best = least_distance(posed)

    assert bound_of(balance_problem(posed)) <= best + 1e-9
    assert balance(posed).bound <= best + 1e-9


@TINY
@given(st.data())
def test_bound_when_groups_are_pinned_then_no_plan_undercuts_it(data):
    posed = data.draw(problems(groups=5, nodes=3))
    pinned = data.draw(pins(posed))
    best = least_distance(posed, pinned)

    plan = balance(posed, pinned=pinned)
    if np.isfinite(best) and "pins dropped" not in plan.stage:
        assert plan.bound <= best + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_plan_when_seed_is_the_same_then_is_the_same(seed):
    posed = uneven(5, 4, 3, seed)

    first, second = (balance(posed, seed=seed) for _ in range(2))

    assert (first.node == second.node).all()
    assert (first.bound, first.stage) == (second.bound, second.stage)


@pytest.mark.parametrize(("budget", "seed"), [(4, 0), (8, 1), (12, 2), (20, 3)])
def test_plan_when_budget_is_small_then_is_near_its_bound(budget, seed):
    posed = uneven(20, 20, budget, seed)
    plan = balance(posed)

    assert posed.distance(plan.node) - plan.bound <= 0.25
    assert posed.distance(plan.node) < posed.distance(posed.node)


def test_plan_when_budget_is_zero_then_nothing_moves():
    posed = uneven(5, 8, 0, 0)

    plan = balance(posed)

    assert (plan.node == posed.node).all()
    assert plan.bound == pytest.approx(posed.distance(posed.node), abs=1e-3)


def test_plan_when_budget_is_infinite_then_balances_fully():
    posed = uneven(5, 20, np.inf, 0)

    assert posed.distance(balance(posed).node) <= 0.05


def test_plan_when_all_is_even_already_then_nothing_moves():
    posed = problem([2.5] * 20, [k % 4 for k in range(20)], 4, 10)

    plan = balance(posed)

    assert not len(posed.moved(plan.node))
    assert posed.distance(plan.node) == plan.bound


def test_plan_when_a_node_is_new_then_fills_it():
    posed = problem([5.0] * 12, [0] * 6 + [1] * 6, 3, 4)

    plan = balance(posed)

    assert np.bincount(plan.node, minlength=3).tolist() == [4, 4, 4]
    assert plan.bound == 0


def test_plan_when_capacities_differ_then_loads_match_them():
    posed = problem([1.0] * 24, [0] * 24, 3, np.inf, capacity=[1.0, 2.0, 3.0])

    plan = balance(posed)

    assert np.bincount(plan.node, minlength=3).tolist() == [4, 8, 12]


def test_plan_when_states_differ_in_size_then_moves_the_cheap_ones():
    cost = [10.0] * 5 + [1.0] * 5
    posed = problem([4.0] * 10, [0] * 10, 2, 5, cost=cost)

    plan = balance(posed)

    assert posed.distance(plan.node) == 0
    assert set(posed.moved(plan.node)) == set(range(5, 10))


def test_plan_when_groups_have_no_node_then_places_them_for_nothing():
    posed = problem([6.0, 5.0, 4.0, 3.0, 2.0], [-1] * 5, 2, 0)

    plan = balance(posed)

    assert posed.distance(plan.node) == 0
    assert posed.spent(plan.node) == 0


def test_plan_when_one_group_is_a_giant_then_the_others_are_balanced():
    posed = problem([90.0] + [2.0] * 20, [0] + [1] * 20, 5, np.inf)

    plan = balance(posed)

    assert plan.bound == pytest.approx(posed.distance(plan.node))
    assert np.bincount(plan.node[1:], minlength=5).tolist()[1:] == [5, 5, 5, 5]


def test_plan_when_there_is_one_node_then_stays():
    posed = problem([1.0, 2.0], [0, 0], 1, 3)

    assert balance(posed).node.tolist() == [0, 0]


def test_plan_when_there_is_no_group_then_is_empty():
    posed = problem([], [], 3, 3)

    assert balance(posed).node.tolist() == []
    assert balance(posed).bound == 0


def test_plan_when_a_move_does_not_help_then_is_not_made():
    # nothing lowers the giant's node, and the others are even
    posed = problem([50.0, 10.0, 10.0], [0, 1, 2], 3, 10)

    assert balance(posed).node.tolist() == [0, 1, 2]


def test_plan_when_a_cap_is_exceeded_then_moves_the_excess():
    memory = Caps(np.array([[4.0, 4.0, 1.0, 1.0]]), np.array([[6.0, 6.0]]))
    posed = problem([5.0, 5.0, 5.0, 5.0], [0, 0, 1, 1], 2, 2, caps=memory)

    plan = balance(posed)

    assert (used(posed, plan.node) <= 6).all()
    assert posed.distance(plan.node) == 0


def test_plan_when_balance_would_exceed_a_cap_then_keeps_the_cap():
    memory = Caps(np.array([[1.0, 1.0, 1.0, 1.0]]), np.array([[4.0, 1.0]]))
    posed = problem([5.0] * 4, [0] * 4, 2, 4, caps=memory)

    plan = balance(posed)

    assert np.bincount(plan.node, minlength=2).tolist() == [3, 1]


def test_pins_that_exceed_the_budget_are_dropped_as_a_whole():
    posed = problem([5.0] * 6, [0] * 3 + [1] * 3, 2, 2)
    pinned = np.array([1, 1, 1, -1, -1, -1])

    plan = balance(posed, pinned=pinned)

    assert plan.node[:3].tolist() == [0, 0, 0]
    assert "pins dropped" in plan.stage


def test_pins_onto_a_removed_node_are_dropped():
    posed = problem([5.0] * 4, [0, 0, 1, 1], 2, 4, removed=[1])

    plan = balance(posed, pinned=np.array([1, -1, -1, -1]))

    assert plan.node[0] == 0
    assert "pins dropped" in plan.stage


def test_pins_that_fit_leave_the_rest_of_the_budget_for_balance():
    posed = problem([5.0] * 8, [0] * 4 + [1] * 4, 2, 2)

    plan = balance(posed, pinned=np.array([1] + [-1] * 7))

    assert plan.node[0] == 1
    assert posed.distance(plan.node) == 0


def test_loads_are_those_of_the_present_placement():
    posed = problem([10.0, 10.0, 7.0, 7.0], [0, 0, 1, 1], 2, 4)
    near = replace(posed, flows=Flows(np.array([0]), np.array([1]), np.array([1.0]), np.array([3.0])))

    # together they load node 0 with 14, as much as node 1 has
    assert not len(near.moved(balance(near).node))
    assert posed.distance(posed.node) == 3


def test_plan_when_groups_could_alternate_in_exceeding_a_cap_then_ends(monkeypatch):
    posed = Problem(
        load=np.array([1.0, 4, 4, 0, 2]),
        node=np.array([2, 2, 0, 2, 1]),
        capacity=np.ones(3),
        removed=np.zeros(3, dtype=bool),
        cost=np.ones(5),
        budget=np.inf,
        operator=np.zeros(5, dtype=np.intp),
        caps=Caps(load=np.array([[2.0, 2, 0, 2, 2]]), limit=np.array([[2.0, 1, 1]])),
    )
    made, move = [], Assignment.move

    def counted(assignment, group, to):
        made.append(group)
        assert len(made) < 100, "groups are moved round in a circle"
        move(assignment, group, to)

    monkeypatch.setattr(Assignment, "move", counted)
    assert_valid(posed, balance(posed))
