from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model.objective import Bounds, Objective
from millrace.optimizers.conformance.builders import NOON, app_signals, capacity, observed
from millrace.optimizers.conformance.situations import histories
from millrace.optimizers.conttune.demand import Demand
from millrace.optimizers.conttune.job_graph import Operator, whole_app
from millrace.optimizers.conttune.operator_context import OperatorContext
from millrace.optimizers.conttune.options import FlowOptions
from millrace.optimizers.conttune.state import OperatorState
from tests.optimizers.conttune.flow_cases import FULL, POWER

Points = dict[int, float | Sequence[float]]


def context(rate: float, points: Points, now: int = 1, ran: int | None = None, **changes: Any) -> OperatorContext:
    """One operator that owns its slots; ``micro_batch`` for an app whose batches take turns."""
    options = changes.pop("options", FlowOptions())
    micro_batch = changes.pop("micro_batch", False)
    objective = changes.pop("objective", FULL)
    app = app_signals(now, rate, capacity(now, POWER[now]), parallelism=ran or now)
    operator: Operator = whole_app(app) if micro_batch else replace(whole_app(app), id="map")
    values: dict[str, Any] = {
        "operator": operator,
        "bounds": Bounds(1, 32),
        "demand": Demand(rate, 0.0, 0.0, objective, {now: 1.0} if micro_batch else {}, micro_batch=micro_batch),
        "room": 1.0,
        "variance": 0.0,
        "observations": observed(points),
        "state": OperatorState(),
        "time": NOON,
        "options": options,
        "operators": 1,
    }
    return OperatorContext(**(values | changes))


WELL: Points = {p: [POWER[p]] * 8 for p in (1, 2, 4, 8)}


# ---- how sure


def test_wanted_is_the_least_sufficient_if_levels_are_known_well() -> None:
    assert context(POWER[4] * 0.97, WELL, 1).wanted == 4
    assert context(POWER[8] * 0.97, WELL, 1).wanted == 8


def test_confidence_is_greater_if_few_levels_are_known() -> None:
    one, many = context(300.0, {1: 100.0}), context(300.0, WELL)
    assert one._deviations > 1.1 * many._deviations
    assert one.wanted > many.wanted


def test_confidence_when_own_steps_failed_then_rises_with_each() -> None:
    contexts = [context(1200.0, {1: 100.0, 2: 187.0}, state=OperatorState(failures=n)) for n in range(4)]
    assert [s._deviations for s in contexts] == sorted({s._deviations for s in contexts})
    assert contexts[1]._deviations == pytest.approx(1.5 * contexts[0]._deviations)
    assert [s.wanted for s in contexts] == sorted(s.wanted for s in contexts) and contexts[3].wanted > contexts[
        0
    ].wanted


def test_confidence_is_greater_for_each_of_many_operators() -> None:
    assert context(300.0, WELL, operators=12)._deviations > context(300.0, WELL)._deviations


def test_confidence_when_less_risk_is_accepted_then_takes_more_room() -> None:
    bold, usual, careful = (context(300.0, {1: 100.0}, options=FlowOptions(risk=r)) for r in (0.5, 0.2, 0.02))
    assert bold._deviations == pytest.approx(0.0, abs=1e-9)
    assert bold.wanted < usual.wanted < careful.wanted


def test_wanted_when_the_need_itself_is_unsure_then_is_more() -> None:
    assert context(1200.0, WELL, variance=0.02).wanted > context(1200.0, WELL).wanted


# ---- how far


def test_reach_limits_a_step_to_times_of_linear_scaling() -> None:
    careful = FlowOptions(risk=0.001, exponent_sd=0.5)
    assert context(800.0, {1: 100.0}, options=careful.model_copy(update={"reach": 1.0})).wanted == 8
    assert context(800.0, {1: 100.0}, options=careful.model_copy(update={"reach": 1.5})).wanted == 12
    assert context(800.0, {1: 100.0}, options=careful.model_copy(update={"reach": 9.0})).wanted == 32


def test_reach_when_a_high_level_is_known_or_set_then_may_go_there() -> None:
    careful = FlowOptions(risk=0.001, exponent_sd=0.5, reach=1.0)
    assert context(800.0, {1: 100.0, 20: 1400.0}, options=careful).wanted > 8
    assert context(800.0, {1: 100.0}, now=8, options=careful).wanted == 8


@given(
    points=histories().filter(bool),
    rate=st.floats(0, 1e15),
    low=st.integers(1, 8),
    wide=st.integers(0, 24),
    failures=st.integers(0, 10**6),
    variance=st.floats(0, 1e40),
)
@settings(deadline=None)
def test_wanted_when_figures_are_anything_then_is_within_the_bounds(
    points: Any, rate: float, low: int, wide: int, failures: int, variance: float
) -> None:
    bounds = Bounds(low, low + wide)
    found = context(rate, points, min(8, low), bounds=bounds, state=OperatorState(failures=failures), variance=variance)
    assert bounds.min_slots <= found.wanted <= bounds.max_slots
    assert np.isfinite(found.load_ratio)


def test_wanted_is_not_beyond_a_ceiling_but_within_the_bounds() -> None:
    flat: Points = {2: [190.0] * 4, 6: [192.0] * 4}
    assert context(900.0, flat, 2).ceiling == 2
    assert context(900.0, flat, 2).wanted == 2
    assert context(900.0, flat, 6, bounds=Bounds(4, 8)).wanted == 4
    assert context(900.0, flat, 2, options=FlowOptions(ineffective_thr=0)).ceiling is None
    assert context(900.0, flat, 2, time=NOON + timedelta(hours=2)).wanted > 6


def test_wanted_is_above_an_insufficient_level_and_within_bounds() -> None:
    assert context(POWER[4] * 0.97, WELL, 2, state=OperatorState(insufficient=5)).wanted == 6
    assert context(POWER[4] * 0.97, WELL, 2, state=OperatorState(insufficient=2)).wanted == 4
    assert context(POWER[4] * 0.97, WELL, 2, state=OperatorState(insufficient=10**8)).wanted <= 32
    flat: Points = {2: [190.0] * 4, 6: [192.0] * 4}
    stuck = context(900.0, flat, 2, state=OperatorState(insufficient=6))
    assert stuck.wanted == 2, "more was measured to bring nothing"


# ---- whether it is enough


def test_too_small_has_the_benefit_of_the_doubt_unless_backlog_grows() -> None:
    barely = context(POWER[4] * 1.01, WELL, 4)
    assert not barely.is_too_small(growing=False) and barely.is_too_small(growing=True)
    clearly = context(POWER[4] * 1.1, WELL, 4)
    assert clearly.is_too_small(growing=False)
    assert not context(POWER[4] * 1.1, WELL, 4, variance=0.01).is_too_small(growing=False)


def test_too_small_tolerates_a_micro_batch_plan_that_is_barely_missed() -> None:
    plan = Objective(target_utilisation=0.8)
    for rate, small in ((0.79, False), (0.83, False), (0.85, True)):
        found = context(rate * POWER[4], WELL, 4, micro_batch=True, objective=plan)
        assert found.is_too_small(growing=False) is small, rate
    strict = context(0.81 * POWER[4], WELL, 4, micro_batch=True, objective=plan, options=FlowOptions(tolerance=0))
    assert strict.is_too_small(growing=False)


@pytest.mark.parametrize("micro_batch", [False, True])
def test_too_small_when_room_may_be_spent_then_is_left_alone_for_longer(micro_batch: bool) -> None:
    plan = Objective(target_utilisation=0.8)
    for spend, small in ((0.0, True), (0.3, True), (0.9, False)):
        options = FlowOptions(spend=spend, tolerance=0)
        found = context(0.92 * POWER[4], WELL, 4, micro_batch=micro_batch, objective=plan, options=options)
        assert found.is_too_small(growing=True) is small, spend


def test_too_small_follows_the_present_load_not_kept_room() -> None:
    found = context(POWER[4] * 1.2, WELL, 4, room=1.25)  # sized for 1.2, of which 0.96 arrives now
    assert not found.is_too_small(growing=True)
    assert found.wanted > 4


# ---- what runs


def test_effective_when_fewer_tasks_ran_than_are_set_then_is_the_tasks() -> None:
    found = context(300.0, WELL, 8, ran=2)
    assert (found.now, found.effective, found.is_starved) == (8, 2, True)
    assert found.ability_now == POWER[2]
    ignored = context(300.0, WELL, 8, ran=2, options=FlowOptions(source_splits=False))
    assert (ignored.effective, ignored.is_starved) == (8, False)


def test_ability_is_the_observed_or_else_the_models() -> None:
    seen = context(300.0, {4: [300.0, 310.0, 305.0]}, 4)
    assert seen.ability_now == 305.0 and seen.error_now == pytest.approx(seen.here.error / 305.0 if seen.here else 0)
    unseen = context(300.0, {4: 305.0}, 6)
    assert unseen.here is None
    assert unseen.ability_now == pytest.approx(305 * 1.5**0.85, rel=0.02)
    assert unseen.error_now > seen.error_now
