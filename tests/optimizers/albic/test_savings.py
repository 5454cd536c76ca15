from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from millrace.optimizers.albic import savings
from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.albic.savings import Savings, edges, worth
from tests.examples import examples
from tests.optimizers.albic.jobs import problem, problems


def _of(given: Problem) -> Savings:
    found = edges(given)
    return Savings(found.group, found.other, found.saved, given.node, given.nodes)


@given(problems())
@examples(60)
def test_savings_at_home_are_the_reduction_of_the_load(given: Problem) -> None:
    saved = _of(given).at(np.arange(given.groups), given.node)
    if given.flows.saved.any():
        np.testing.assert_allclose(given.load - saved, given.own(given.node), atol=1e-9)
    else:
        np.testing.assert_allclose(saved, 0)


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


def test_worth_when_savings_are_unknown_then_uses_rates() -> None:
    unknown = problem([0, 1, 1], nodes=2, edges=[(0, 1, 3.0), (0, 2, 1.0)], saved=0.0)
    found = worth(unknown)
    assert found[0] == pytest.approx(3 * found[1])
    assert 2 * found.sum() == pytest.approx(savings.UNKNOWN_SAVINGS * unknown.load.sum())
    assert not edges(unknown).saved.any()


def test_edges_of_a_group_to_itself_save_nothing_more() -> None:
    looped = problem([0, 1], nodes=2, edges=[(0, 0, 2.0), (0, 1, 1.0)])
    assert len(edges(looped).group) == 2
