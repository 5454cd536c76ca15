from __future__ import annotations

import numpy as np
from hypothesis import given

from benchmarks.albic.rivals.non_integrated import place
from millrace.optimizers.albic.balancer import balance
from millrace.optimizers.albic.problem import Problem
from tests.examples import examples
from tests.optimizers.albic.jobs import after, problem, problems


@given(problems())
@examples(60)
def test_place_makes_a_whole_plan_within_the_budget(given: Problem) -> None:
    node = place(given).node
    assert (node >= 0).all()
    assert given.spent(node) <= given.budget + 1e-9
    assert not (given.removed[node] & (node != given.node)).any()


def _hot_and_marked(budget: float) -> Problem:
    return problem([0] * 19 + [1] * 8 + [2] * 8 + [3] * 6, nodes=4, load=5.0, budget=budget, removed=[3])


def test_place_when_a_node_is_overloaded_then_still_drains_first() -> None:
    given = _hot_and_marked(3)
    node = place(given).node
    assert (node[given.moved(node)] != 0).all()
    assert (given.node[given.moved(node)] == 3).all()
    assert given.loads(node)[0] == 95
    assert given.loads(balance(given).node)[0] < 95, "the integrated one relieves it first"


def test_place_when_the_marked_node_is_empty_then_balances() -> None:
    given = _hot_and_marked(3)
    for _ in range(6):
        given = after(given, place(given).node)
    assert not given.removed[given.node].any()
    assert given.distance(given.node) <= 5


def test_place_when_groups_leave_then_they_are_spread_evenly() -> None:
    given = problem([0, 1, 2] + [3] * 6, nodes=4, load=5.0, budget=6, removed=[3])
    np.testing.assert_allclose(given.loads(place(given).node)[:3], 15.0)
