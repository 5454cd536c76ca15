from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from include.contracts.signals import Objective
from optimizers.conttune.demand import LEAST_UTILISATION, Demand, demand
from optimizers.conttune.options import CORRECTED, LITERAL
from tests.optimizers.builders import app_signals

OBJECTIVE = Objective(target_utilisation=0.8, max_lag_s=30.0, catch_up_s=60.0)
FIXED = {2: (1.0,)}


def test_required_when_literal_then_is_lambda_alone() -> None:
    load = demand(app_signals(2, 300.0, None, backlog_rows=90_000), 300.0, FIXED, OBJECTIVE, LITERAL)
    assert load.required_at(4) == 300.0
    assert not load.draining(1000.0)


def test_required_when_micro_batch_then_leaves_room_for_the_target_utilisation() -> None:
    load = demand(app_signals(2, 300.0, None), 300.0, FIXED, OBJECTIVE, CORRECTED)
    assert load.required_at(2) == pytest.approx(375.0)


def test_required_when_the_fixed_cost_nears_the_latency_goal_then_grows() -> None:
    load = demand(app_signals(2, 300.0, None), 300.0, {2: (10.0,), 6: (28.0, 26.0)}, OBJECTIVE, CORRECTED)
    assert load.required_at(2) == pytest.approx(300 / (1 - 10 / 30))
    assert load.required_at(5) == pytest.approx(300 / (1 - 27 / 30))  # of the nearest level, the mean
    for p in (2, 6):
        rho = 300 / load.required_at(p)
        assert load.fixed_at(p) / (1 - rho) == pytest.approx(30.0)


def test_required_when_the_latency_goal_cannot_be_met_then_is_the_target_utilisations() -> None:
    load = demand(app_signals(2, 300.0, None), 300.0, {2: (31.0,)}, OBJECTIVE, CORRECTED)
    assert not load.attainable(2)
    assert load.required_at(2) == pytest.approx(375.0)


def test_backlog_when_no_more_than_a_batch_leaves_behind_then_is_not_caught_up() -> None:
    # o / (1 - target) = 5 s of arrivals always wait when a batch at the planned load ends
    load = demand(app_signals(2, 300.0, None, backlog_rows=1500), 300.0, FIXED, OBJECTIVE, CORRECTED)
    assert (load.excess, load.waiting) == (0.0, 0.0)


def test_backlog_when_large_then_is_to_drain_within_catch_up_s() -> None:
    load = demand(app_signals(2, 300.0, None, backlog_rows=1500 + 60 * 200), 300.0, FIXED, OBJECTIVE, CORRECTED)
    assert load.required_at(2) == pytest.approx(500.0)


def test_backlog_when_our_own_restart_caused_it_then_is_never_a_reason_for_more() -> None:
    app = app_signals(2, 300.0, None, backlog_rows=1500 + 12_000, restart_lag_rows=12_000)
    load = demand(app, 300.0, FIXED, OBJECTIVE, CORRECTED)
    assert load.required_at(2) == pytest.approx(375.0)
    assert load.draining(400.0), "but a step down waits for it"


def test_tolerance_when_given_then_never_exceeds_what_can_be_kept_up_with() -> None:
    full = Objective(target_utilisation=1.0)
    load = demand(app_signals(2, 300.0, None), 300.0, FIXED, full, CORRECTED)
    assert load.required_at(2, tolerance=0.5) == 300.0
    load = demand(app_signals(2, 300.0, None), 300.0, FIXED, OBJECTIVE, CORRECTED)
    assert load.required_at(2, tolerance=0.05) == pytest.approx(300 / 0.84)


@given(rate=st.floats(1, 1e4), x=st.integers(100, 10**6), fixed_s=st.floats(0.1, 5), target=st.floats(0.2, 1.0))
def test_required_when_batches_are_limited_then_is_just_what_sustains_the_rate_at_the_target(
    rate: float, x: int, fixed_s: float, target: float
) -> None:
    assume(rate * fixed_s / x < target - LEAST_UTILISATION)
    goal = Objective(target_utilisation=target, max_lag_s=1e9)
    load = Demand(rate, 0.0, 0.0, goal, {2: fixed_s}, batch_rows=x)
    needed = load.required_at(2)
    assert load.sustained(needed, 2) * target == pytest.approx(rate, rel=1e-6)
    free = replace(load, batch_rows=None)
    assert needed >= free.required_at(2)
    assert load.sustained(needed, 2) <= needed


def test_required_when_fixed_costs_eat_a_limited_batch_then_stays_finite() -> None:
    load = Demand(1000.0, 0.0, 5000.0, OBJECTIVE, {2: 5.0}, batch_rows=100)
    assert load.required_at(2) == pytest.approx((1000.0 + 5000.0 / OBJECTIVE.catch_up_s) / LEAST_UTILISATION)
