from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from millrace.optimizers.albic import savings
from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.albic.savings import Savings, edges
from tests.examples import examples
from tests.optimizers.albic.jobs import problem, problems


def _of(given: Problem) -> Savings:
    stages = int(given.operator.max()) + 1
    return Savings(edges(given, given.operator), given.node, given.nodes, stages)


@given(problems())
@examples(60)
def test_savings_at_home_are_the_reduction_of_the_load_of_nodes(given: Problem) -> None:
    saved = _of(given).at(np.arange(given.groups), given.node).sum(axis=0) / 2  # both ends are near
    placed = given.node >= 0
    raw = np.bincount(given.node[placed], (given.load - saved)[placed], given.nodes)
    np.testing.assert_allclose(raw / given.capacity, given.loads(given.node), atol=1e-9)


@given(problems())
@examples(40)
def test_savings_when_too_large_to_keep_whole_then_are_the_same(given: Problem) -> None:
    groups = np.repeat(np.arange(given.groups), given.nodes)
    nodes = np.tile(np.arange(given.nodes), given.groups)
    whole = _of(given).at(groups, nodes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(savings, "DENSE", 0)
        sparse = _of(given).at(groups, nodes)
    np.testing.assert_allclose(sparse, whole, atol=1e-12)


def test_edges_of_a_group_to_itself_save_nothing_more() -> None:
    looped = problem([0, 1], nodes=2, edges=[(0, 0, 2.0), (0, 1, 1.0)])
    assert len(edges(looped, looped.operator).group) == 2


def test_only_the_stage_of_the_receiver_saves() -> None:
    given = problem([0, 0, 1], nodes=2, edges=[(0, 1, 2.0), (0, 2, 2.0)], operator=[0, 1, 1])
    both = _of(given).at(np.array([0, 1]), np.array([0, 0]))
    assert both[0].tolist() == [0, 0] and both[1].tolist() == [2, 2]
