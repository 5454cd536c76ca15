from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from millrace.model.arrival import ArrivalBasis
from millrace.model.objective import Bounds, Objective
from millrace.optimizers.conformance.builders import app_signals
from millrace.optimizers.conttune.contingency import FOR_S, UNCOUNTED, UNKNOWN, plan_contingencies
from tests.optimizers.conttune.flow_cases import POWER, WELL, ask, measured
from tests.optimizers.conttune.test_operator_context import context

COUNTED = ArrivalBasis.COUNTED
GOAL = Objective(target_utilisation=0.8, max_lag_s=30.0)


def planned(rate: float, slots: int = 2, basis: ArrivalBasis = COUNTED, highest: int = 8):
    app = app_signals(slots, rate, measured(slots), arrival_basis=basis)
    return ask(app, WELL, bounds=Bounds(1, highest), objective=GOAL).contingencies


@given(rate=st.floats(20, 120), highest=st.integers(3, 12))
def test_lines_rise_in_rate_and_slots_within_the_bounds_and_above_what_arrives(rate: float, highest: int) -> None:
    *lines, overdue = planned(rate, highest=highest)
    assert lines and overdue.above_rows_per_s is None and overdue.slots <= highest
    for line in lines:
        assert line.slots <= highest
        assert line.above_rows_per_s is not None and line.above_rows_per_s >= rate
        assert line.for_s == FOR_S
    for lower, higher in pairwise(lines):
        assert lower.slots < higher.slots
        assert (lower.above_rows_per_s or 0) <= (higher.above_rows_per_s or 0)


def test_first_line_starts_at_the_rate_that_the_present_slots_cannot_sustain() -> None:
    lines = planned(0.5 * POWER[2])
    rate = lines[0].above_rows_per_s or 0
    assert POWER[2] * 0.8 < rate <= POWER[2]
    within = ask(app_signals(2, 0.97 * rate, measured(2)), WELL, bounds=Bounds(1, 8), objective=GOAL)
    beyond = ask(app_signals(2, 1.1 * rate, measured(2)), WELL, bounds=Bounds(1, 8), objective=GOAL)
    assert beyond.changes and beyond.changes[0].value > 2
    assert within.reason_code != "under_provisioned"


def test_line_leads_to_the_slots_of_an_evaluation_at_its_rate() -> None:
    lines = planned(0.5 * POWER[2])
    for line in lines[:-2]:
        rate = 1.05 * (line.above_rows_per_s or 0)
        (change,) = ask(app_signals(2, rate, measured(2)), WELL, bounds=Bounds(1, 8), objective=GOAL).changes
        assert change.value <= line.slots


def test_nothing_is_planned_if_more_slots_are_not_allowed() -> None:
    assert planned(0.7 * POWER[2], highest=2) == ()


def test_overdue_batch_is_the_sign_until_throughput_is_known() -> None:
    unknown = context(50.0, {}, micro_batch=True, objective=GOAL)
    (line,) = plan_contingencies(unknown, 1)
    assert (line.slots, line.above_rows_per_s, line.why) == (2, None, UNKNOWN) and line.for_s >= GOAL.max_lag_s / 2


def test_source_without_an_arrival_rate_is_planned_for_only_by_overdue_batches() -> None:
    (line,) = planned(0.7 * POWER[2], basis=ArrivalBasis.TAKEN)
    assert (line.slots, line.above_rows_per_s, line.why) == (4, None, UNCOUNTED)
    assert line.for_s >= GOAL.max_lag_s / 2


def test_batch_that_reads_a_known_backlog_is_not_overdue() -> None:
    def overdue_s(backlog: int) -> float:
        app = app_signals(4, 0.5 * POWER[4], measured(4), arrival_basis=COUNTED, backlog_rows=backlog)
        goal = replace(GOAL, catch_up_s=300.0)
        return ask(app, WELL, bounds=Bounds(4, 8), objective=goal).contingencies[-1].for_s

    whole = 40 * POWER[4]
    assert overdue_s(0) < 40 <= overdue_s(round(whole)) < 80


def test_option_switches_it_off() -> None:
    app = app_signals(2, 100.0, measured(2), arrival_basis=COUNTED)
    assert ask(app, WELL, bounds=Bounds(1, 8), contingencies=False).contingencies == ()
    assert ask(app, WELL, bounds=Bounds(1, 8)).contingencies
