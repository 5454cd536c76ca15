from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.albic.class_bound import bound_by_classes
from benchmarks.albic.polish import polish
from millrace.optimizers.albic.balance_bound import lower_bound
from millrace.optimizers.albic.balance_problem import balance_problem
from millrace.optimizers.albic.balancer import balance
from tests.optimizers.albic.instances import assert_valid, least_distance, pins, problem, problems, uneven

FEW = settings(max_examples=60, deadline=None)
TINY = settings(max_examples=40, deadline=None)


@FEW
@given(problems())
def test_polish_keeps_every_limit_and_is_no_worse(posed):
    plan = balance(posed)
    polished = polish(posed, plan)

    assert_valid(posed, polished)
    assert posed.distance(polished.node) <= posed.distance(plan.node) + 1e-9
    assert polished.bound >= plan.bound - 1e-9
    assert posed.removed[polished.node].sum() <= posed.removed[plan.node].sum()


@TINY
@given(st.data())
def test_bound_when_all_plans_can_be_listed_then_none_undercuts_it(data):
    posed = data.draw(problems(groups=5, nodes=3))

    assert polish(posed, balance(posed)).bound <= least_distance(posed) + 1e-9


@TINY
@given(st.data())
def test_bound_when_groups_are_pinned_then_no_plan_undercuts_it(data):
    posed = data.draw(problems(groups=5, nodes=3))
    pinned = data.draw(pins(posed))
    best, plan = least_distance(posed, pinned), balance(posed, pinned=pinned)

    if np.isfinite(best) and "pins dropped" not in plan.stage:
        assert polish(posed, plan, pinned=pinned).bound <= best + 1e-9


@TINY
@given(problems(groups=5, nodes=3))
def test_polished_plan_when_nothing_else_is_owed_then_is_optimal(posed):
    posed = replace(posed, caps=None, removed=np.zeros(posed.nodes, dtype=bool))
    plan = polish(posed, balance(posed))

    assert posed.distance(plan.node) <= least_distance(posed) + 0.02


@pytest.mark.parametrize("seed", range(3))
def test_polish_when_seed_is_the_same_then_is_the_same(seed):
    posed = uneven(5, 4, 3, seed)

    first, second = (polish(posed, balance(posed, seed=seed)) for _ in range(2))

    assert (first.node == second.node).all()
    assert (first.bound, first.stage, first.seed) == (second.bound, second.stage, second.seed)


def test_polish_when_there_is_no_group_then_is_empty():
    posed = problem([], [], 3, 3)

    assert polish(posed, balance(posed)).bound == 0


def test_polish_when_a_heavy_group_fixes_the_distance_then_still_drains():
    # what Lemma 2 promises of the paper's program, which stays where it is here
    posed = problem([80.0, 40.0, 40.0, 40.0, 6.0], [0, 1, 2, 3, 4], 5, 1, removed=[4])

    assert not posed.removed[polish(posed, balance(posed)).node].any()


@TINY
@given(problems(), st.integers(1, 4))
def test_polish_puts_no_more_groups_on_removed_nodes(posed, budget):
    at_home = np.maximum(posed.node, 0)
    posed = replace(posed, node=at_home, budget=float(budget), cost=np.ones(posed.groups), caps=None)
    plan = balance(posed)

    assert posed.removed[polish(posed, plan).node].sum() <= posed.removed[plan.node].sum()


def test_class_bound_lets_a_heavy_group_serve_one_node_only():
    # two nodes lack 30 each, and there is one group of 30
    load = [30.0] + [5.0] * 6 + [5.0] * 6 + [0.001, 0.001]
    posed = problem(load, [0] * 7 + [1] * 6 + [2, 3], 4, 2)
    start = balance_problem(posed)
    coarse = lower_bound(posed)

    fine = bound_by_classes(start, coarse, posed.distance(posed.node), 1.0, 0)

    assert coarse < fine <= least_distance_of_two_moves(posed) + 1e-9


def least_distance_of_two_moves(posed):
    found = posed.distance(posed.node)
    for k in range(posed.groups):
        for i in range(posed.nodes):
            once = posed.node.copy()
            once[k] = i
            for m in range(posed.groups):
                for j in range(posed.nodes):
                    twice = once.copy()
                    twice[m] = j
                    found = min(found, posed.distance(twice))
    return found
