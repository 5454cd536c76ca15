"""The parts of the balance benchmark, on a subset of each."""

import math

import pytest

from benchmarks.albic import budget, drain, grid
from benchmarks.albic.targets import TARGETS, of_rivals
from benchmarks.record import Record
from benchmarks.targets import judged


def test_grid_is_complete_when_full_and_a_mixed_sample_when_quick():
    quick = grid.cases(quick=True)

    assert len(grid.cases(quick=False)) >= 240
    assert {c.size for c in quick} == set(grid.SIZES)
    assert {c.budget for c in quick} == set(grid.BUDGETS)
    assert {c.varies for c in quick} == set(grid.VARIES)


@pytest.mark.parametrize(
    "case",
    [
        grid.cases(quick=True)[0],
        grid.Case(grid.SIZES[-1], varies=60, budget=10, seed=5),
        grid.Case(grid.SIZES[1], varies=40, budget=10, seed=101_000_004),
    ],
)
def test_grid_when_an_instance_is_solved_then_ours_is_proven_and_no_worse_than_flux(case):
    posed = case.problem()
    ours, rival = grid.balancer(posed), grid.of_flux(posed)

    assert ours.distance <= rival.distance + 1e-9
    assert 0 <= ours.gap <= 0.4
    assert ours.moves <= posed.budget
    assert math.isnan(rival.gap)


def test_drain_when_followed_then_ends_as_fast_as_the_budget_allows():
    course = drain.follow(drain.problem(0, 0), drain.METHODS["non_integrated"])

    assert course.periods == drain.LEAST_PERIODS
    assert course.moves <= drain.BUDGET


def test_budget_when_small_then_is_kept_each_period():
    assert all(p.moves <= 5 for p in budget.follow(5, 0, quick=True))


@pytest.mark.parametrize(("value", "holds"), [(0.04, True), (0.06, False)])
def test_target_when_a_figure_has_one_then_is_judged(value, holds):
    (found,) = judged([Record("albic", "grid", "balancer", "bound_gap_median", value, "points")], TARGETS)

    assert found.holds is holds


def test_target_when_the_rival_is_measured_then_is_the_rivals_figure():
    mine = Record("albic", "drain_5ol", "balancer", "load_distance", 12.0, "points")
    rival = Record("albic", "drain_5ol", "non_integrated", "load_distance", 15.0, "points")

    found = judged([mine, rival], of_rivals([mine, rival]))

    assert found[0].holds
    assert found[1].target is None
