from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millrace.optimizers.albic.exchanges import exchange, gains, pair_savings
from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.albic.search_context import objective, placement_state, search_context
from tests.examples import examples
from tests.optimizers.albic.jobs import collocation, problem, problems


@given(problems(unplaced=False), st.integers(0, 1000))
@examples(80)
def test_gains_are_the_decrease_of_the_objective(given: Problem, luck: int) -> None:
    movable = [k for k in range(given.groups) if not given.removed[given.node[k]]]
    pairs = [(k, m) for k in movable for m in movable if given.node[k] != given.node[m]]
    if not pairs:
        return  # nothing can be exchanged
    k, m = pairs[luck % len(pairs)]
    context = search_context(replace(given, budget=np.inf), np.ones(len(given.flows.rate), dtype=bool))
    # the mean is unchanged, to compare the objective with the tolerance wide and the mean still
    still = replace(context, prices=replace(context.prices, strictness=0.0))
    first, second = np.array([k]), np.array([m])
    gain = gains(still, placement_state(still, given.node), pair_savings(still), first, second, given.cost)[0]
    node = given.node.copy()
    node[k], node[m] = node[m], node[k]
    assert np.isclose(gain, objective(still, given.node) - objective(still, node), atol=1e-6)


def test_exchange_when_neither_can_move_alone_then_swaps_them() -> None:
    # two nodes, each with half of two heavy pairs: single moves leave one node with three, the exchange is even
    given = problem(
        [0, 1, 1, 0], nodes=2, load=20.0, edges=[(0, 1, 2.0), (3, 2, 2.0)], saved=1.0, budget=2, operator=[0, 1, 1, 0]
    )
    context = search_context(given, np.ones(2, dtype=bool))
    node = exchange(context, given.node)
    assert collocation(given, node) == 1.0
    assert given.distance(node) == 0.0
    assert given.spent(node) == 2


def test_swap_when_the_budget_allows_only_one_move_then_is_not_made() -> None:
    given = problem(
        [0, 1, 1, 0], nodes=2, load=20.0, edges=[(0, 1, 2.0), (3, 2, 2.0)], saved=1.0, budget=1, operator=[0, 1, 1, 0]
    )
    context = search_context(given, np.ones(2, dtype=bool))
    np.testing.assert_array_equal(exchange(context, given.node), given.node)
