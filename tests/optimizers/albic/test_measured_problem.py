from __future__ import annotations

import numpy as np
import pytest

from include.model.errors import MillraceError
from optimizers.albic.measured_problem import group_keys, measured_problem
from optimizers.albic.options import PlacementOptions
from tests.optimizers.albic.key_groups import groups


def test_measured_when_no_limit_is_given_then_the_mean_node_is_half_full() -> None:
    found = measured_problem(groups([10, 20, 30, 40]), {}, PlacementOptions(workers=(1.0, 3.0)))
    assert found.resource == "rows_per_s" and found.problem.caps is None
    assert found.problem.load.sum() == pytest.approx(50 * 4)
    assert found.problem.load == pytest.approx(np.array([10, 20, 30, 40]) * 2)


def test_measured_when_limits_are_given_then_balances_the_most_used() -> None:
    limits = {"rows_per_s": 1000.0, "bytes_per_s": 20_000.0}
    found = measured_problem(groups([10, 20, 30, 40]), {}, PlacementOptions(workers=(1.0, 2.0), limits=limits))
    assert found.resource == "bytes_per_s"
    assert found.problem.load == pytest.approx(np.array([5, 10, 15, 20]))  # of 20,000 bytes a second, in per cent
    assert found.problem.caps is not None
    assert found.problem.caps.load.tolist() == [[10, 20, 30, 40]]
    assert found.problem.caps.limit.tolist() == [[1000, 2000]]


def test_measured_when_rows_pass_then_costs_apart_what_it_saves_together() -> None:
    told = groups([10, 10, 10, 10], [(0, 2, 10.0), (1, 3, 5.0)])
    problem = measured_problem(told, {}, PlacementOptions(workers=(1.0, 1.0), exchange_ratio=0.2)).problem
    row = 100 / 40  # points for a row a second
    assert problem.flows.saved == pytest.approx([0.2 * 10 * row, 0.2 * 5 * row])
    apart, together = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    assert problem.loads(apart) == pytest.approx([20 * row + 3 * row, 20 * row + 3 * row])
    assert problem.loads(together) == pytest.approx([20 * row, 20 * row])


def test_measured_when_a_move_is_paid_by_state_then_costs_its_megabytes() -> None:
    told = groups([1, 1], state_bytes=(5_000_000, 0))
    assert measured_problem(told, {}, PlacementOptions(cost="state")).problem.cost == pytest.approx([5, 0], abs=1e-5)
    assert (measured_problem(told, {}, PlacementOptions(cost="state")).problem.cost > 0).all()


@pytest.mark.parametrize("options", [PlacementOptions(cost="state"), PlacementOptions(limits={"cpu_ratio": 1.0})])
def test_measured_when_a_limited_figure_is_missing_then_says_which(options: PlacementOptions) -> None:
    with pytest.raises(MillraceError, match=r"key_groups\.(state_bytes|cpu_ratio)"):
        measured_problem(groups([1, 1]), {}, options)


def test_measured_when_groups_were_placed_then_only_those_have_nodes() -> None:
    told = groups([1, 1, 1, 1])
    assert group_keys(told) == ["plane/0", "plane/1", "route/2", "route/3"]
    problem = measured_problem(told, {"plane/1": 2, "gone/9": 1}, PlacementOptions()).problem
    assert problem.node.tolist() == [-1, 2, -1, -1]
    assert problem.operator.tolist() == [0, 0, 1, 1]


def test_measured_when_nothing_arrives_then_there_is_a_problem() -> None:
    problem = measured_problem(groups([0, 0, 0], [(0, 2, 0.0)]), {}, PlacementOptions()).problem
    assert problem.load.tolist() == [0, 0, 0] and problem.flows.saved.tolist() == [0]
