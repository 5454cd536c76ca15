from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model.objective import Objective
from millrace.model.signals import AppSignals, Capacity
from millrace.reporting.recorded_app import Span, Waiting, modelled, planned_rows
from millrace.reporting.recorded_throughputs import RecordedThroughput

GOAL = Objective(target_utilisation=0.8, max_lag_s=30.0)
ABLE = RecordedThroughput(rates={1: 250.0, 2: 500.0, 4: 1000.0}, fixed_s={2: 1.0})


def recorded(arrival: float | None = 400.0, backlog: int | None = 800) -> AppSignals:
    capacity = Capacity(2, 1.0, 500.0, 5.0, 9)
    return AppSignals("a", 2, 2, False, arrival, 390.0, backlog, 1.0, 9, 8, 0.9, 0.0, 0.5, capacity)


def test_app_on_too_few_slots_grows_its_backlog() -> None:
    found, waiting = modelled(recorded(), 1, Waiting(1000.0), ABLE, GOAL, Span(60.0))
    assert found.backlog_rows == 1000 + 60 * (400 - 250)
    assert found.backlog_growth_rows_per_s == pytest.approx(150.0)
    assert found.processed_rows_per_s == pytest.approx(250.0)
    # the plan covers the rows of 5 s: 2000
    assert found.backpressured_ratio == pytest.approx(8000 / 9000)
    assert (found.slots, found.parallelism, found.arrival_rows_per_s) == (1, 1, 400.0)
    assert waiting.rows == 10_000


def test_app_with_enough_slots_drains_to_the_arrivals_of_a_batch() -> None:
    found, _ = modelled(recorded(), 4, Waiting(9000.0), ABLE, GOAL, Span(60.0))
    # rho = 0.4: a batch lasts 1 / 0.6 s
    assert found.backlog_rows == round(400 / 0.6)
    assert found.capacity is not None and found.capacity.rows_per_s == 1000.0
    again, _ = modelled(recorded(), 4, Waiting(400 / 0.6), ABLE, GOAL, Span(60.0))
    assert again.backpressured_ratio == 0.0 and again.healthy_batches > 10


def test_app_after_a_restart_reports_waiting_rows_as_lag() -> None:
    span = Span(60.0, down_s=20.0, since_ready_s=25.0)
    found, waiting = modelled(recorded(), 2, Waiting(2000.0), ABLE, GOAL, span)
    assert found.backlog_rows == 2000 + 60 * 400 - 500 * 40
    assert found.restart_lag_rows == 4000 == waiting.lag
    later, waiting = modelled(recorded(), 4, waiting, ABLE, GOAL, Span(60.0, since_ready_s=85.0))
    assert later.restart_lag_rows == 0
    worse, _ = modelled(recorded(900.0), 2, waiting, ABLE, GOAL, Span(60.0))
    assert worse.restart_lag_rows == 0, "what has drained never comes back as lag"


def test_app_with_limited_batches_pays_the_fixed_cost_in_each() -> None:
    limited = RecordedThroughput(rates={2: 500.0}, fixed_s={2: 1.0}, batch_rows=500.0)
    found, _ = modelled(recorded(), 2, Waiting(5000.0), limited, GOAL, Span(60.0))
    assert found.processed_rows_per_s == pytest.approx(250.0)
    assert found.backlog_rows == 5000 + 60 * 150 and found.batch_rows_limit == 500


def test_app_just_after_a_restart_has_an_unknown_capacity() -> None:
    early, _ = modelled(recorded(), 4, Waiting(600.0), ABLE, GOAL, Span(20.0, 6.0, since_ready_s=2.0))
    late, _ = modelled(recorded(), 4, Waiting(600.0), ABLE, GOAL, Span(20.0, 6.0, since_ready_s=14.0))
    assert early.capacity is None and late.capacity is not None


@pytest.mark.parametrize(
    ("app", "able"),
    [(recorded(arrival=None), ABLE), (recorded(), RecordedThroughput()), (recorded(backlog=None), ABLE)],
    ids=["arrival unknown", "throughput unknown", "backlog unknown"],
)
def test_app_keeps_unknown_values_unknown(app: AppSignals, able: RecordedThroughput) -> None:
    waiting = Waiting(None if app.backlog_rows is None else 700.0)
    found, after = modelled(app, 4, waiting, able, GOAL, Span(60.0))
    assert found.capacity is None and found.backlog_rows is None and found.processed_rows_per_s is None
    assert after == waiting


def test_app_without_arrivals_runs_no_batch() -> None:
    found, _ = modelled(recorded(0.0), 2, Waiting(0.0), ABLE, GOAL, Span(60.0))
    assert (found.batches, found.backlog_rows, found.slot_busy_ratio) == (0, 0, 0.0)


@settings(deadline=None)
@given(
    arrival=st.floats(0, 5000),
    backlog=st.floats(0, 1e6),
    slots=st.integers(1, 16),
    length=st.floats(1, 600),
    down=st.floats(0, 30),
    limit=st.none() | st.floats(1, 1e5),
    fixed=st.floats(0, 10),
)
def test_app_when_modelled_then_rows_are_neither_lost_nor_created(
    arrival: float, backlog: float, slots: int, length: float, down: float, limit: float | None, fixed: float
) -> None:
    able = RecordedThroughput(rates={1: 250.0, 4: 900.0}, fixed_s={1: fixed}, batch_rows=limit)
    span = Span(length, min(down, length), 3.0)
    found, waiting = modelled(recorded(arrival), slots, Waiting(backlog), able, GOAL, span)
    assert waiting.rows is not None and waiting.rows >= 0 and waiting.lag >= 0
    assert found.processed_rows_per_s is not None and found.processed_rows_per_s >= 0
    came, kept = arrival * length, waiting.rows - backlog
    assert found.processed_rows_per_s * length == pytest.approx(came - kept, rel=1e-6, abs=1e-3)
    for ratio in (found.busy_ratio, found.slot_busy_ratio, found.backpressured_ratio):
        assert ratio is not None and 0 <= ratio <= 1 and math.isfinite(ratio)
    more, fewer = modelled(recorded(arrival), slots + 1, Waiting(backlog), able, GOAL, span)
    assert fewer.rows is not None and fewer.rows <= waiting.rows + 1e-6, "more slots never keep more rows waiting"
    assert more.slots == slots + 1


def test_planned_rows_at_full_use_follow_the_latency_goal() -> None:
    assert planned_rows(10.0, 2.0, Objective(target_utilisation=1.0, max_lag_s=30.0)) == 150.0
    assert planned_rows(10.0, 2.0, GOAL) == pytest.approx(100.0)
