import numpy as np
import pytest

from optimizers.albic.plan import Plan, effect
from tests.optimizers.albic.instances import problem


def test_effect_when_a_plan_moves_a_group_then_tells_before_and_after():
    posed = problem([10.0, 10.0, 10.0, 10.0], [0, 0, 0, 1], 2, 1)

    told = effect(posed, Plan(np.array([0, 0, 1, 1]), bound=0.0, stage="balanced", seed=0))

    assert told.moves.tolist() == [2]
    assert told.spent == 1
    assert told.distance == (10.0, 0.0)
    assert [x.tolist() for x in told.loads] == [[30.0, 10.0], [20.0, 20.0]]
    assert told.gap == 0


def test_gap_when_the_bound_is_not_reached_then_is_what_is_missing():
    posed = problem([10.0, 10.0], [0, 0], 2, 0)

    assert effect(posed, Plan(posed.node, bound=8.0, stage="balanced", seed=0)).gap == pytest.approx(2.0)
