from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.control.batch_history import History
from millrace.control.rates import RECENT_RATIO, is_full, rates
from millrace.model.telemetry import BatchMetrics
from tests.include.control.synthetic import START, App

PERIOD_S = 30


def history(rows: list[BatchMetrics], period_s: float = PERIOD_S) -> History:
    until = rows[-1].time
    return History(tuple(rows), until - timedelta(seconds=period_s), until)


def arrivals(ends: dict[float, int | None]) -> list[BatchMetrics]:
    """Rows that only report the source's end at some seconds."""
    blank = App().blank(0)
    return [
        replace(blank, time=START + timedelta(seconds=s), batch_id=i, source_end=end)
        for i, (s, end) in enumerate(ends.items())
    ]


def test_recent_rate_is_the_new_one_after_a_change() -> None:
    found = rates(history(App(fixed_s=0.5).run(90, lambda t: 200 if t < 75 else 800)))
    assert found.arrival_recent_rows_per_s == pytest.approx(800, rel=0.02)
    assert found.arrival_rows_per_s is not None and 300 < found.arrival_rows_per_s < 700


def test_recent_rate_forgets_the_rate_before_its_part() -> None:
    begin = PERIOD_S * (1 - RECENT_RATIO)
    rows = arrivals({0: 0, begin: round(begin) * 100, PERIOD_S: round(begin) * 100 + 10 * 900})
    assert rates(history(rows)).arrival_recent_rows_per_s == pytest.approx(900)


@given(rate=st.floats(10, 5000))
def test_recent_rate_when_the_rate_is_steady_then_is_the_mean(rate: float) -> None:
    found = rates(history(App(fixed_s=0.5).run(60, rate)))
    assert found.arrival_recent_rows_per_s == pytest.approx(found.arrival_rows_per_s, rel=0.02, abs=1)


def test_recent_rate_without_earlier_rows_is_unknown() -> None:
    found = rates(history(arrivals({24: 0, 27: 300, 30: 600})))
    assert (found.arrival_rows_per_s, found.arrival_recent_rows_per_s) == (pytest.approx(100), None)
    assert rates(history(arrivals({30: 600}))).arrival_recent_rows_per_s is None


def test_recent_rate_when_the_source_went_back_then_leaves_that_span_out() -> None:
    found = rates(history(arrivals({0: 0, 15: 1500, 20: 2000, 24: 50, 27: 350, 30: 650})))
    assert found.arrival_recent_rows_per_s == pytest.approx(100)


def test_batch_during_which_a_topic_was_recreated_is_not_full() -> None:
    """Decreasing offsets are not a limit of a batch (KEDA 2612)."""
    before = replace(App().batch(1000), source_end=5000, backlog_rows=0)
    batch = replace(App().batch(1000), rows_in=20, source_end=50, backlog_rows=0)
    assert not is_full(before, batch)


def test_recent_rate_when_the_source_reports_nothing_then_is_unknown() -> None:
    found = rates(history(arrivals({0: None, 15: None, 25: None, 30: None})))
    assert (found.arrival_rows_per_s, found.arrival_recent_rows_per_s) == (None, None)


def test_recent_rate_spans_a_restart() -> None:
    app = App(fixed_s=0.5)
    rows = app.run(60, 300)
    app.restart(6, 600, slots=8, rows_per_s=4000)
    rows += app.run(4, 600)
    found = rates(history(rows))
    assert found.arrival_recent_rows_per_s == pytest.approx(600, rel=0.1)
    assert found.arrival_rows_per_s is not None and found.arrival_rows_per_s < 450
