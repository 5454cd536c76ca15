from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from millrace.optimizers.albic.hill_climbing import climb
from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.albic.search_context import objective, placement_state, search_context
from tests.examples import examples
from tests.optimizers.albic.jobs import problem, problems


@given(problems(unplaced=False))
@examples(80)
def test_climb_makes_nothing_worse_and_keeps_the_budget(given: Problem) -> None:
    context = search_context(given, np.ones(len(given.flows.rate), dtype=bool))
    node = climb(context, given.node)
    assert given.spent(node) <= given.budget + 1e-9
    assert not (given.removed[node] & (node != given.node)).any()


@given(problems(unplaced=False))
@examples(60)
def test_placement_state_has_the_loads_of_the_problem(given: Problem) -> None:
    context = search_context(given, np.ones(len(given.flows.rate), dtype=bool))
    seen = placement_state(context, given.node)
    np.testing.assert_allclose(seen.raw.sum(axis=0) / given.capacity, given.loads(given.node), atol=1e-9)
    assert seen.mean.sum() == pytest.approx(given.mean(given.node))


def test_climb_spreads_each_stage_though_nodes_are_evenly_loaded() -> None:
    # whole stages on nodes of their own, and one flow that may go anywhere
    given = problem([0, 0, 1, 1], nodes=2, load=20.0, edges=[(0, 2, 1.0)], saved=0.01, budget=4, operator=[0, 0, 1, 1])
    node = climb(search_context(given, np.ones(1, dtype=bool)), given.node)
    assert node[0] != node[1] and node[2] != node[3]


def test_climb_when_a_pair_can_meet_then_does_so_on_the_better_balanced_node() -> None:
    # either group may move; node 0 has more to give
    given = problem([0, 0, 0, 1, 1, 1], nodes=2, load=[5.0, 5.0, 6.0, 5.0, 5.0, 4.0], edges=[(0, 3, 5.0)], budget=1)
    node = climb(search_context(given, np.ones(1, dtype=bool)), given.node)
    assert node[0] == node[3] == 1


def test_climb_when_a_group_is_fixed_then_its_partner_joins_it() -> None:
    given = problem([0, 0, 0, 1, 1, 1], nodes=2, load=[5.0, 5.0, 6.0, 5.0, 5.0, 4.0], edges=[(0, 3, 5.0)], budget=1)
    context = search_context(given, np.ones(1, dtype=bool))
    fixed = context.fixed.copy()
    fixed[0] = True
    node = climb(replace(context, fixed=fixed), given.node)
    assert node[0] == node[3] == 0


def test_climb_when_a_move_saves_too_little_then_does_not_make_it() -> None:
    given = problem([0, 0, 1, 1], nodes=2, edges=[(0, 2, 0.05)], saved=0.5, budget=4)
    context = search_context(given, np.ones(1, dtype=bool))
    np.testing.assert_array_equal(climb(context, given.node), given.node)
    assert objective(context, given.node) == 0.0


def test_climb_when_a_node_is_far_too_full_then_relieves_it_first() -> None:
    edges = [(10, 11, 2.0)]
    given = problem([0] * 10 + [1, 2], nodes=3, load=6.0, edges=edges, saved=0.2, budget=1)
    node = climb(search_context(given, np.ones(1, dtype=bool)), given.node)
    assert (node[:10] != 0).sum() == 1
