from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.errors import MillraceError
from millrace.optimizers.albic.balancer import balance
from millrace.optimizers.albic.joint_search import collocate
from millrace.optimizers.albic.paper.framework import NEW, NeededCapacity, ScalingLimits, adapt, to_target
from millrace.optimizers.albic.problem import Caps, Ints, Plan, Problem
from tests.examples import examples
from tests.optimizers.albic.jobs import after, pairs, problem, problems


def place(given: Problem) -> Plan:
    node = collocate(given)
    return balance(given) if node is None else Plan(node, 0.0, "collocated", 0)


def _fixed(nodes: float) -> NeededCapacity:
    return lambda problem, node: nodes


def test_adapt_when_a_marked_node_is_empty_then_terminates_it() -> None:
    given = problem([0, 0, 2, 2], nodes=3, removed=[1])
    found = adapt(given, balance, _fixed(2))
    assert found.terminate.tolist() == [1]
    assert found.origin.tolist() == [0, 2]
    assert found.problem.nodes == 2
    assert found.problem.node.tolist() == [0, 0, 1, 1]


def test_adapt_when_a_marked_node_still_holds_groups_then_it_stays() -> None:
    given = problem([0, 0, 1, 1, 2], nodes=3, removed=[2], budget=0)
    assert not len(adapt(given, balance, _fixed(2)).terminate)


def test_adapt_when_the_plan_resolves_the_overload_then_adds_no_node() -> None:
    # 95 points on one node and 5 on the other; sizing alone would ask for a third
    uneven = problem([0] * 19 + [1], nodes=2, load=5.0, budget=20)
    found = adapt(uneven, balance, _fixed(3), ScalingLimits(overload=80))
    assert found.add == 0
    assert uneven.loads(found.plan.node).max() <= 80


def test_adapt_when_collocation_resolves_the_overload_then_adds_no_node() -> None:
    hot = replace(pairs(30, 5, 60), load=pairs(30, 5, 60).load * 1.8)
    hot = replace(hot, flows=replace(hot.flows, saved=hot.flows.saved * 1.8))
    assert hot.loads(hot.node).max() > 90
    limits = ScalingLimits(overload=90)
    assert adapt(hot, balance, to_target(60), limits).add > 0
    assert adapt(hot, place, to_target(60), limits).add == 0


def test_adapt_when_the_overload_remains_then_adds_nodes_and_uses_them() -> None:
    full = problem([0] * 20 + [1] * 20, nodes=2, load=5.0, budget=40)
    found = adapt(full, balance, to_target(50), ScalingLimits(overload=90))
    assert found.add == 2
    assert found.origin.tolist() == [0, 1, NEW, NEW]
    assert found.problem.distance(found.plan.node) <= 5


def test_adapt_when_no_more_nodes_are_allowed_then_says_so() -> None:
    full = problem([0] * 20 + [1] * 20, nodes=2, load=5.0, budget=4)
    found = adapt(full, balance, to_target(50), ScalingLimits(most=2))
    assert found.add == 0
    assert "no more nodes" in found.reason


def test_adapt_when_nodes_are_needed_then_takes_marked_ones_back_first() -> None:
    full = problem([0] * 20 + [1] * 20 + [2], nodes=3, load=5.0, budget=20, removed=[2])
    found = adapt(full, balance, to_target(70), ScalingLimits(overload=90))
    assert found.unmark.tolist() == [2]
    assert found.add == 0


def test_adapt_when_nodes_are_spare_then_marks_and_drains_the_emptiest() -> None:
    idle = problem([0] * 4 + [1] * 3 + [2] * 2, nodes=3, load=5.0, budget=2)
    found = adapt(idle, balance, to_target(25), ScalingLimits(max_distance=10))
    assert found.mark.tolist() == [2]
    assert not found.problem.removed[found.plan.node].any()


def test_adapt_when_the_others_could_not_be_balanced_then_marks_none() -> None:
    # two groups of 40: on two nodes they are 20 off, as on three nodes: one can be spared, two cannot
    lumpy = problem([0, 1, 2], nodes=3, load=[40.0, 40.0, 4.0], budget=3)
    found = adapt(lumpy, balance, _fixed(1), ScalingLimits(max_distance=10, overload=60))
    assert found.mark.tolist() == [2]
    one = adapt(problem([0, 1], nodes=2, load=[60.0, 50.0], budget=3), balance, _fixed(1), ScalingLimits(overload=90))
    assert not len(one.mark)
    assert "could not be balanced" in one.reason


def test_adapt_when_draining_takes_long_then_decides_beyond_one_budget() -> None:
    idle = problem([0] * 4 + [1] * 4 + [2] * 4, nodes=3, load=5.0, budget=1)
    found = adapt(idle, balance, to_target(30), ScalingLimits(max_distance=6))
    assert len(found.mark) == 1
    assert len(found.problem.moved(found.plan.node)) <= 1


def test_adapt_when_repeated_then_the_node_drains_and_is_terminated() -> None:
    given = pairs(20, 5, 4)
    for _ in range(30):
        found = adapt(given, place, to_target(40), ScalingLimits(max_distance=12))
        given = after(found.problem, found.plan.node)
    assert given.nodes == given.kept.size < 5
    assert given.collocation(given.node) >= 0.9


def test_adapt_when_there_are_caps_then_a_new_node_has_the_typical_limit() -> None:
    full = problem([0] * 20 + [1] * 20, nodes=2, load=5.0, budget=40)
    capped = replace(full, caps=Caps(np.ones((1, 40)), np.array([[30.0, 50.0]])))
    found = adapt(capped, balance, to_target(50), ScalingLimits(overload=90))
    assert found.problem.caps is not None
    assert found.problem.caps.limit[0, 2:].tolist() == [40.0, 40.0]


@given(problems(), st.sampled_from([0.5, 2.0, 6.0]))
@examples(40)
def test_adapt_makes_a_plan_that_is_valid_for_its_cluster(given: Problem, wanted: float) -> None:
    found = adapt(given, balance, _fixed(wanted), ScalingLimits(overload=20))
    assert len(found.origin) == found.problem.nodes
    assert (found.origin == NEW).sum() == found.add
    assert ((found.plan.node >= 0) & (found.plan.node < found.problem.nodes)).all()
    assert found.problem.spent(found.plan.node) <= found.problem.budget + 1e-9
    assert not set(found.terminate.tolist()) & set(found.origin.tolist())


@pytest.mark.parametrize("bad", [{"overload": 0.0}, {"capacity": math.nan}, {"least": 0}, {"most": 1, "least": 2}])
def test_limits_when_out_of_range_then_say_so(bad: dict[str, float]) -> None:
    with pytest.raises(MillraceError, match=r"limits\."):
        ScalingLimits(**bad)  # type: ignore[arg-type]


def test_to_target_sizes_by_the_load_after_the_plan() -> None:
    given = pairs(10, 5, 20)
    node: Ints = place(given).node
    assert to_target(25)(given, node) < to_target(25)(given, given.node)
    with pytest.raises(MillraceError, match="sizing"):
        to_target(0)
