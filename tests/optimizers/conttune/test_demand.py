from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from millrace.model.objective import Objective
from millrace.model.signals import Capacity
from millrace.optimizers.conformance.builders import app_signals, dag_signals, deployment, operator, source
from millrace.optimizers.conttune.demand import LEAST_UTILISATION, Demand, build_demand
from millrace.optimizers.conttune.job_graph import build_job, whole_app
from millrace.optimizers.conttune.state import OperatorState

OBJECTIVE = Objective(target_utilisation=0.8, max_lag_s=30.0, catch_up_s=60.0)
FIXED = {2: (1.0,)}


def of_app(
    rate: float = 300.0,
    fixed_s: dict[int, tuple[float, ...]] | None = None,
    objective: Objective = OBJECTIVE,
    catch_up: bool = True,
    **changes: Any,
) -> Demand:
    """For an app of two slots as one operator."""
    app = app_signals(2, rate, None, **changes)
    return build_demand(app, whole_app(app), rate, OperatorState(fixed_s or FIXED), objective, catch_up=catch_up)


def of_operator(rate: float, arrival: float, objective: Objective = OBJECTIVE, **changes: Any) -> Demand:
    """For an operator that owns its slots, in a job with ``arrival`` at its source."""
    seen = dag_signals([source("in", arrival), operator("map", 2, rate, 500.0)], [], **changes)
    of = build_job(seen.apps[0], deployment(2, {"map": 2}))
    return build_demand(of.app, of.by_id["map"], rate, OperatorState(), objective)


# ---- (1) the planned load


def test_required_of_an_operator_with_own_slots_is_lambda_over_target() -> None:
    load = of_operator(300.0, 300.0)
    assert load.required_at(2) == pytest.approx(375.0)
    assert of_operator(300.0, 300.0, Objective(1.0, max_lag_s=0.001)).required_at(2) == 300.0
    assert load.is_attainable(2) and load.throughput(400.0, 2) == 400.0


def test_required_of_micro_batches_leaves_room_for_the_target() -> None:
    assert of_app().required_at(2) == pytest.approx(375.0)


def test_required_when_the_fixed_cost_nears_the_latency_goal_then_grows() -> None:
    load = of_app(fixed_s={2: (5.0,), 6: (14.0, 13.0)})
    assert load.required_at(2) == pytest.approx(300 / (1 - 10 / 30))
    assert load.required_at(5) == pytest.approx(300 / (1 - 27 / 30))  # of the nearest level, the mean
    for p in (2, 6):
        assert load.longest_wait_s(load.required_at(p), p) == pytest.approx(30.0)
        assert load.sustainable(load.required_at(p), p) == pytest.approx(300.0)


def test_required_at_an_impossible_latency_goal_is_the_targets() -> None:
    load = of_app(fixed_s={2: (15.1,)})
    assert not load.is_attainable(2)
    assert load.required_at(2) == pytest.approx(375.0)


def test_fixed_cost_measured_in_this_evaluation_counts() -> None:
    app = app_signals(2, 300.0, Capacity(2, 10.0, 500.0, 5.0, 9))
    notes = OperatorState(FIXED).with_batches(app, 5)
    assert build_demand(app, whole_app(app), 300.0, notes, OBJECTIVE).fixed_at(2) == pytest.approx(5.5)
    assert build_demand(app, whole_app(app), 300.0, OperatorState(), OBJECTIVE).fixed_at(2) is None


def test_tolerance_never_exceeds_the_sustainable_rate() -> None:
    assert of_app(objective=Objective(target_utilisation=1.0)).required_at(2, tolerance=0.5) == 300.0
    assert of_app().required_at(2, tolerance=0.05) == pytest.approx(300 / 0.84)


# ---- (2) the backlog


def test_backlog_left_by_a_batch_is_not_caught_up() -> None:
    # o / (1 - target) = 5 s of arrivals always wait when a batch at the planned load ends
    load = of_app(backlog_rows=1500)
    assert (load.excess, load.waiting) == (0.0, 0.0)


def test_backlog_when_large_then_is_to_drain_within_catch_up_s() -> None:
    load = of_app(backlog_rows=1500 + 60 * 200)
    assert load.required_at(2) == pytest.approx(500.0)
    assert load.is_draining(400.0)
    assert not load.is_draining(300 + 200 / 0.1 * 1.01), "what is gone in a tenth of the time is as good as gone"


def test_backlog_of_our_own_restart_is_never_a_reason_to_scale_up() -> None:
    load = of_app(backlog_rows=1500 + 12_000, restart_lag_rows=12_000)
    assert load.required_at(2) == pytest.approx(375.0)
    assert load.is_draining(400.0), "but a step down waits for it"


def test_backlog_when_catch_up_is_off_or_it_is_unknown_then_is_none() -> None:
    load = of_app(backlog_rows=90_000, catch_up=False)
    assert load.required_at(2) == pytest.approx(375.0) and not load.is_draining(1000.0)
    assert of_app(backlog_rows=None).waiting == 0.0


def test_backlog_of_an_operator_is_its_share_of_the_arrival() -> None:
    load = of_operator(150.0, 300.0, backlog_rows=12_000)
    assert load.waiting == load.excess == pytest.approx(6000)
    assert load.required_at(2) == pytest.approx(max(150 / 0.8, 150 + 6000 / 60))
    late = of_operator(150.0, 300.0, backlog_rows=12_000, restart_lag_rows=12_000)
    assert (late.waiting, late.excess) == (pytest.approx(6000), 0.0)


def test_backlog_when_nothing_arrives_then_must_still_drain() -> None:
    load = of_operator(0.0, 0.0, backlog_rows=6000)
    assert load.required_at(2) == pytest.approx(100.0)


def test_backlog_without_a_time_limit_requires_nothing() -> None:
    load = of_operator(300.0, 300.0, Objective(1.0, catch_up_s=math.inf), backlog_rows=10**6)
    assert load.required_at(2) == 300.0


# ---- (3) limited batches


@given(rate=st.floats(1, 1e4), x=st.integers(100, 10**6), fixed_s=st.floats(0.1, 5), target=st.floats(0.2, 1.0))
def test_required_of_limited_batches_just_sustains_the_rate_at_target(
    rate: float, x: int, fixed_s: float, target: float
) -> None:
    assume(rate * fixed_s / x < target - LEAST_UTILISATION)
    goal = Objective(target_utilisation=target, max_lag_s=1e9)
    load = Demand(rate, 0.0, 0.0, goal, {2: fixed_s}, batch_rows=x)
    needed = load.required_at(2)
    assert load.throughput(needed, 2) * target == pytest.approx(rate, rel=1e-6)
    free = replace(load, batch_rows=None)
    assert needed >= free.required_at(2)
    assert load.throughput(needed, 2) <= needed


def test_required_when_fixed_costs_eat_a_limited_batch_then_stays_finite() -> None:
    load = Demand(1000.0, 0.0, 5000.0, OBJECTIVE, {2: 5.0}, batch_rows=100)
    assert load.required_at(2) == pytest.approx((1000.0 + 5000.0 / OBJECTIVE.catch_up_s) / LEAST_UTILISATION)


def test_limit_is_used_if_remembered() -> None:
    app = app_signals(2, 300.0, None)
    load = build_demand(app, whole_app(app), 300.0, OperatorState(FIXED, batch_rows=600), OBJECTIVE)
    assert load.required_at(2) == pytest.approx(300 / (0.8 - 300 / 600))


# ---- all of them


@given(
    rates=st.tuples(st.floats(0, 1e15), st.floats(0, 1e15)).map(sorted),
    backlog=st.none() | st.integers(0, 10**15),
    lag=st.none() | st.integers(0, 10**15),
    fixed_s=st.floats(0, 1e15),
    limit=st.none() | st.integers(1, 10**15),
    micro_batch=st.booleans(),
)
@settings(deadline=None)
def test_required_is_finite_and_grows_with_the_rate(
    rates: list[float], backlog: int | None, lag: int | None, fixed_s: float, limit: int | None, micro_batch: bool
) -> None:
    found = []
    for rate in rates:
        app = app_signals(2, rate, None, backlog_rows=backlog, restart_lag_rows=lag)
        of = whole_app(app) if micro_batch else replace(whole_app(app), id="map")
        load = build_demand(app, of, rate, OperatorState({2: (fixed_s,)}, limit), OBJECTIVE)
        found.append(load.required_at(2))
        assert math.isfinite(found[-1]) and found[-1] >= rate / OBJECTIVE.target_utilisation * (1 - 1e-9)
        assert 0 <= load.excess <= load.waiting
        assert 0 < load.highest_utilisation(2) <= OBJECTIVE.target_utilisation
    if not backlog:
        assert found == sorted(found)


def test_required_for_many_levels_matches_each_level() -> None:
    load = of_app(fixed_s={2: (10.0,), 6: (27.0,)})
    assert list(load.required([2, 6])) == [load.required_at(2), load.required_at(6)]
