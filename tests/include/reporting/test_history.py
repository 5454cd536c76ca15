"""A span of a pipeline as figures and as paths."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.lake.control_tables import ControlTables
from millrace.lake.store import Lake
from millrace.model.decision import Action, Decision
from millrace.model.signals import AppSignals, Capacity, Signals
from millrace.reporting.history import MOST_MOMENTS, History, Moment, history
from millrace.reporting.history_figure import HEIGHTS, LEFT, RIGHT, WIDTH, figure, spark

UNTIL = datetime(2026, 3, 2, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def evaluation(time: datetime, slots: int = 2, arrival: float | None = 80.0, action: Action = Action.HOLD) -> Decision:
    """Return an evaluation that measured a rate, and 50 rows/s per slot."""
    capacity = Capacity(slots, 0.1, 50.0 * slots, 1.0, 9)
    app = AppSignals("p", slots, slots, False, arrival, arrival, 10, 0.0, 9, 9, 0.5, 0.0, 0.5, capacity)
    signals = Signals("p", time - timedelta(minutes=1), time, 1, 1, (app,))
    decision_id = f"{time:%Y%m%dT%H%M%S}-00000000"
    return Decision(decision_id, "p", time, action, "because", f"at {time:%H:%M}", signals=signals, cursor_version=1)


@pytest.fixture
def tables(tmp_path: Path) -> ControlTables:
    return ControlTables(Lake(tmp_path))


def record(tables: ControlTables, *decisions: Decision) -> None:
    for decision in decisions:
        assert tables.decisions.record(decision)


def test_history_covers_its_span_and_pipeline(tables: ControlTables) -> None:
    inside = [UNTIL - timedelta(minutes=m) for m in (50, 30, 10)]
    record(tables, *map(evaluation, (UNTIL - 2 * HOUR, *inside, UNTIL + HOUR)))
    record(tables, replace(evaluation(UNTIL - timedelta(minutes=20)), pipeline="q"))
    record(tables, replace(evaluation(UNTIL - timedelta(minutes=5)), signals=None))
    found = history(tables, "p", UNTIL - HOUR, UNTIL)
    assert [moment.time for moment in found.moments] == inside
    assert found.moments[0] == Moment(inside[0], 80.0, pytest.approx(100 * (1 - 2 * 0.1 / 30)), 2, 10)


def test_history_samples_evaluations_but_keeps_every_change(tables: ControlTables) -> None:
    times = [UNTIL - timedelta(seconds=s) for s in range(2 * MOST_MOMENTS, 0, -1)]
    rows = [evaluation(t, action=Action.APPLY if n == 77 else Action.HOLD) for n, t in enumerate(times)]
    from millrace.lake.row_codec import decision_row

    tables.lake.append("control/decisions", [decision_row(row) for row in rows], {})
    found = history(tables, "p", UNTIL - HOUR, UNTIL)
    assert MOST_MOMENTS <= len(found.moments) <= MOST_MOMENTS + 1
    assert [(mark.time, mark.sentence) for mark in found.marks] == [(times[77], rows[77].sentence)]
    assert found.changes == 1


def test_history_marks_changes_that_measured_nothing_and_no_moment_of_an_old_measurement(tables: ControlTables) -> None:
    by_plan = replace(evaluation(UNTIL - timedelta(minutes=9), action=Action.APPLY), signals=None, cursor_version=None)
    rolled_back = replace(by_plan, decision_id="b", time=UNTIL - timedelta(minutes=8), action=Action.ROLL_BACK)
    expired = evaluation(UNTIL - timedelta(minutes=7), action=Action.VETO)
    measured = evaluation(UNTIL - timedelta(minutes=6))
    record(tables, by_plan, rolled_back, replace(expired, cursor_version=None), measured)
    found = history(tables, "p", UNTIL - HOUR, UNTIL)
    assert [mark.time for mark in found.marks] == [by_plan.time, rolled_back.time] and found.changes == 2
    assert [moment.time for moment in found.moments] == [measured.time]


def test_cost_counts_slots_while_measured_and_compares_with_the_peak() -> None:
    slots = [2, 2, 6, 6, 2]
    times = [UNTIL - HOUR + timedelta(minutes=10 * n) for n in range(5)]
    moments = tuple(Moment(t, 1.0, 1.0, n, 0) for t, n in zip(times, slots, strict=True))
    found = History(UNTIL - HOUR, UNTIL, moments, ())
    assert found.core_hours == pytest.approx((2 + 2 + 6 + 6) / 6)
    assert found.peak_core_hours == pytest.approx(6 * 4 / 6)
    late = Moment(UNTIL + HOUR, 1.0, 1.0, 2, 0)
    assert replace(found, moments=(*moments, late)).core_hours == found.core_hours, "nobody knows what ran in the gap"


def test_unmeasured_span_costs_and_draws_nothing() -> None:
    empty = History(UNTIL - HOUR, UNTIL, (), ())
    assert (empty.core_hours, empty.peak_core_hours, empty.changes) == (0, 0, 0)
    assert {line.path for panel in figure(empty).panels for line in panel.lines} == {""}


rates = st.none() | st.floats(0, 1e9)


@given(
    st.lists(st.tuples(st.integers(0, 3600), rates, rates, st.integers(1, 4096)), max_size=30, unique_by=lambda m: m[0])
)
def test_curves_stay_within_their_axes(measured: list[tuple[int, float | None, float | None, int]]) -> None:
    since = UNTIL - HOUR
    moments = tuple(Moment(since + timedelta(seconds=s), a, c, n, None) for s, a, c, n in sorted(measured))
    drawn = figure(History(since, UNTIL, moments, ()))
    assert [panel.title for panel in drawn.panels] == list(HEIGHTS)
    for panel in drawn.panels:
        assert len(panel.ticks) <= 5 and panel.ticks[0] == (panel.bottom, "0")
        for line in panel.lines:
            for x in re.findall(r"[MLH]([\d.e+-]+)", line.path):
                assert LEFT <= float(x) <= WIDTH - RIGHT
            for y in re.findall(r"[,V]([\d.e+-]+)", line.path):
                assert panel.top - 0.1 <= float(y) <= panel.bottom + 0.1
    assert all(LEFT <= x <= WIDTH - RIGHT for x, _ in drawn.times)


def test_curve_has_a_gap_if_values_are_unknown() -> None:
    minutes = (0, 1, 2, 20, 21)
    moments = tuple(Moment(UNTIL - HOUR + timedelta(minutes=m), 5.0, None, 2, None) for m in minutes)
    (arrival, capacity) = spark(History(UNTIL - HOUR, UNTIL, moments, ())).panels[0].lines
    assert arrival.path.count("M") == 2 and capacity.path == ""
