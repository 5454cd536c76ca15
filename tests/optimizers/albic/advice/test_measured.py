from __future__ import annotations

import numpy as np
import pytest

from include.model.errors import MillraceError
from optimizers.albic.advice.measured import keys, measured
from optimizers.albic.advice.options import Options
from tests.optimizers.albic.advice.groups import groups


def test_measured_when_no_limit_is_given_then_rows_are_balanced_and_the_mean_node_is_half_full() -> None:
    found = measured(groups([10, 20, 30, 40]), {}, Options(workers=(1.0, 3.0)))
    assert found.resource == "rows_per_s" and found.problem.caps is None
    assert found.problem.load.sum() == pytest.approx(50 * 4)
    assert found.problem.load == pytest.approx(np.array([10, 20, 30, 40]) * 2)


def test_measured_when_limits_are_given_then_the_most_used_resource_is_balanced_and_the_others_are_caps() -> None:
    limits = {"rows_per_s": 1000.0, "bytes_per_s": 20_000.0}
    found = measured(groups([10, 20, 30, 40]), {}, Options(workers=(1.0, 2.0), limits=limits))
    assert found.resource == "bytes_per_s"
    assert found.problem.load == pytest.approx(np.array([5, 10, 15, 20]))  # of 20,000 bytes a second, in per cent
    assert found.problem.caps is not None
    assert found.problem.caps.load.tolist() == [[10, 20, 30, 40]]
    assert found.problem.caps.limit.tolist() == [[1000, 2000]]


def test_measured_when_rows_pass_between_groups_then_apart_they_cost_what_together_they_save() -> None:
    told = groups([10, 10, 10, 10], [(0, 2, 10.0), (1, 3, 5.0)])
    problem = measured(told, {}, Options(workers=(1.0, 1.0), exchange_ratio=0.2)).problem
    row = 100 / 40  # points for a row a second
    assert problem.flows.saved == pytest.approx([0.2 * 10 * row, 0.2 * 5 * row])
    apart, together = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    assert problem.loads(apart) == pytest.approx([20 * row + 3 * row, 20 * row + 3 * row])
    assert problem.loads(together) == pytest.approx([20 * row, 20 * row])


def test_measured_when_a_move_is_paid_by_state_then_costs_its_megabytes() -> None:
    told = groups([1, 1], state_bytes=(5_000_000, 0))
    assert measured(told, {}, Options(cost="state")).problem.cost == pytest.approx([5, 0], abs=1e-5)
    assert (measured(told, {}, Options(cost="state")).problem.cost > 0).all()


@pytest.mark.parametrize("options", [Options(cost="state"), Options(limits={"cpu_ratio": 1.0})])
def test_measured_when_a_figure_is_asked_for_that_was_not_measured_then_says_which(options: Options) -> None:
    with pytest.raises(MillraceError, match=r"key_groups\.(state_bytes|cpu_ratio)"):
        measured(groups([1, 1]), {}, options)


def test_measured_when_groups_were_placed_then_are_there_and_the_others_have_no_node() -> None:
    told = groups([1, 1, 1, 1])
    assert keys(told) == ["plane/0", "plane/1", "route/2", "route/3"]
    problem = measured(told, {"plane/1": 2, "gone/9": 1}, Options()).problem
    assert problem.node.tolist() == [-1, 2, -1, -1]
    assert problem.operator.tolist() == [0, 0, 1, 1]


def test_measured_when_nothing_arrives_then_there_is_a_problem_all_the_same() -> None:
    problem = measured(groups([0, 0, 0], [(0, 2, 0.0)]), {}, Options()).problem
    assert problem.load.tolist() == [0, 0, 0] and problem.flows.saved.tolist() == [0]
