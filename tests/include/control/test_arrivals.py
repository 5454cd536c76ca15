"""Arrivals at sources that do not count them, derived from batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.control.arrivals import arrival_basis, with_arrivals
from millrace.control.batch_history import History
from millrace.control.collect import collect
from millrace.control.rates import batch_rows_limit, rates, restart_lag_rows
from millrace.lake.control_tables import ControlTables
from millrace.model.arrival import ArrivalBasis
from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.protocols import Cursor
from millrace.model.signals import AppSignals
from millrace.model.telemetry import RUNNING, BatchMetrics
from tests.include.control.synthetic import START, App, lake_of, spec

TAKEN, READ, LISTED = ArrivalBasis.TAKEN, ArrivalBasis.READ, ArrivalBasis.LISTED
PERIOD_S = 30.0
Rate = Callable[[float], float] | float


def untold(rows: list[BatchMetrics], basis: ArrivalBasis = TAKEN) -> list[BatchMetrics]:
    """Return rows as the driver writes them if the source does not count."""
    kept = basis is LISTED
    return [
        replace(
            row,
            source_end=None,
            backlog_rows=row.backlog_rows if kept or not row.durations_ms else None,
            arrival_basis=basis if row.durations_ms or kept else TAKEN,
        )
        for row in rows
    ]


def history(rows: list[BatchMetrics], period_s: float = PERIOD_S) -> History:
    until = rows[-1].time
    return History(with_arrivals(rows), until - timedelta(seconds=period_s), until)


def ran(rate: Rate, seconds: float = 90, **app: object) -> list[BatchMetrics]:
    return App(**app).run(seconds, rate)  # type: ignore[arg-type]


def as_planned(rows: list[BatchMetrics], arrived: Callable[[float], float]) -> list[BatchMetrics]:
    """Return rows as the driver writes them if the source reports its end as of the batch's start."""
    told = []
    for row in rows:
        came = 0
        if row.durations_ms:
            end = (row.time - START).total_seconds()
            came = round(arrived(end) - arrived(end - row.duration_s))
        source_end, backlog = (row.source_end or 0) - came, max(0, (row.backlog_rows or 0) - came)
        told.append(replace(row, source_end=source_end, backlog_rows=backlog, arrival_basis=ArrivalBasis.PLANNED))
    return told


@given(rate=st.floats(20, 1500), fixed_s=st.floats(0.2, 2))
def test_rate_and_backlog_match_a_source_that_counts_when_a_batch_is_planned(rate: float, fixed_s: float) -> None:
    rows = ran(rate, fixed_s=fixed_s)
    told, counted = history(as_planned(rows, lambda s: rate * s)), rates(history(rows))
    found = rates(told)
    assert found.arrival_rows_per_s == pytest.approx(counted.arrival_rows_per_s, rel=0.02, abs=1)
    assert found.arrival_recent_rows_per_s == pytest.approx(counted.arrival_recent_rows_per_s, rel=0.05, abs=2)
    assert found.backlog_rows == pytest.approx(counted.backlog_rows, rel=0.05, abs=2)
    assert arrival_basis(told) is ArrivalBasis.COUNTED


def test_rate_from_planned_ends_does_not_lag_when_batches_grow() -> None:
    grown = ran(400.0, rows_per_s=200.0)  # twice the throughput: each batch is longer than the previous one
    told = rates(history(as_planned(grown, lambda s: 400.0 * s), 60.0))
    assert told.arrival_rows_per_s == pytest.approx(400.0, rel=0.02)
    assert told.backlog_rows == pytest.approx(rates(history(grown)).backlog_rows, rel=0.05)


@given(rate=st.floats(20, 1500), fixed_s=st.floats(0.2, 2))
def test_rate_and_backlog_match_those_of_a_source_that_counts(rate: float, fixed_s: float) -> None:
    rows = ran(rate, fixed_s=fixed_s)
    told, counted = rates(history(untold(rows))), rates(history(rows))
    assert told.arrival_rows_per_s == pytest.approx(counted.arrival_rows_per_s, rel=0.02, abs=1)
    assert told.arrival_recent_rows_per_s == pytest.approx(counted.arrival_recent_rows_per_s, rel=0.05, abs=2)
    assert told.backlog_rows == pytest.approx(counted.backlog_rows, rel=0.05, abs=2)
    assert arrival_basis(history(untold(rows))) is TAKEN


@given(times=st.floats(1.1, 4.0))
def test_rate_of_an_overloaded_app_is_the_arrival_rate_not_its_own_pace(times: float) -> None:
    rows = ran(times * 2000.0, seconds=200)
    told = rates(history(untold(rows)))
    assert told.arrival_rows_per_s == pytest.approx(times * 2000, rel=0.02)
    assert told.backlog_rows == pytest.approx(rows[-1].backlog_rows, rel=0.02)


def test_rate_of_batches_with_pauses_between_them_is_the_arrival_rate() -> None:
    app, rows = App(fixed_s=0.2), []
    for _ in range(20):
        app.arrive(5.0, 300)  # a trigger interval
        rows.append(app.batch(300))
    told = rates(history(untold(rows)))
    assert told.arrival_rows_per_s == pytest.approx(300, rel=0.02)
    assert told.backlog_rows == pytest.approx(rows[-1].backlog_rows, rel=0.05)


def test_batches_that_take_everything_have_no_limit() -> None:
    assert batch_rows_limit(untold(ran(3000.0, seconds=200))) is None


def test_rows_that_waited_before_the_first_batch_did_not_arrive() -> None:
    rows = App(source_end=20_000.0).run(60, 100)
    told = rates(history(untold(rows), period_s=60))
    assert told.arrival_rows_per_s == pytest.approx(100, rel=0.05)


def test_a_first_batch_alone_gives_no_rate() -> None:
    told = rates(history(untold(App(source_end=5000.0).run(0.1, 100))))
    assert (told.arrival_rows_per_s, told.backlog_rows) == (None, None)


def test_silence_is_a_rate_of_zero_and_nothing_waits() -> None:
    app = App()
    rows = app.run(60, 500)
    app.arrive(1, 0)
    rows += [*app.run(1, 0), *app.idle(60)]
    told = rates(history(untold(rows)))
    assert (told.arrival_rows_per_s, told.backlog_rows) == (0.0, 0)


def test_a_burst_after_silence_does_not_set_the_future_rate() -> None:
    app = App()
    rows = [*app.run(30, 100), *app.idle(30)]
    app.source_end += 4000  # a large file, a moment ago
    rows.append(app.batch(0))
    told = history(untold(rows))
    assert told.newest.backlog_rows is not None and told.newest.backlog_rows < 4000 / 3


def test_rate_spans_a_restart() -> None:
    app = App(fixed_s=0.5)
    rows = app.run(60, 300)
    app.restart(12, 300, slots=8, rows_per_s=4000)
    rows += app.run(8, 300)
    told = history(untold(rows))
    assert rates(told).arrival_rows_per_s == pytest.approx(300, rel=0.03)
    change = Reconfiguration("p", "a", None, "T2", 1, 2, 2, START, START, 12, Outcome.READY)
    counted = restart_lag_rows(history(rows), [change])
    assert restart_lag_rows(told, [change]) == pytest.approx(counted, rel=0.1, abs=50)


@pytest.mark.parametrize("basis", [ArrivalBasis.PLANNED, TAKEN])
def test_markers_of_a_long_first_batch_do_not_separate_a_driver_from_its_predecessor(basis: ArrivalBasis) -> None:
    app, rate = App(fixed_s=0.5), 300
    before = app.run(60, rate)
    app.restart(12, rate, slots=8, rows_per_s=350.0)
    blank = app.blank(app.batch_id - 1)
    silent = [replace(blank, time=blank.time + timedelta(seconds=s), durations_ms={RUNNING: 1000 * s}) for s in (5, 10)]
    after = app.run(15, rate)

    def told(rows: list[BatchMetrics]) -> list[BatchMetrics]:
        return untold(rows) if basis is TAKEN else as_planned(rows, lambda s: rate * s)

    found, without = history([*told(before), *silent, *told(after)], 90), history([*told(before), *told(after)], 90)
    assert rates(found) == rates(without)
    assert rates(found).arrival_rows_per_s == pytest.approx(rate, rel=0.03)
    change = Reconfiguration("p", "a", None, "T2", 1, 2, 2, START, START, 12, Outcome.READY)
    assert restart_lag_rows(found, [change]) == restart_lag_rows(without, [change]) != 0
    during = history([*told(before), *silent], 60)
    assert rates(during).arrival_rows_per_s == pytest.approx(rate, rel=0.03)
    assert arrival_basis(during) is (TAKEN if basis is TAKEN else ArrivalBasis.COUNTED)
    assert restart_lag_rows(during, [change]) is None, "how many rows wait is not known yet"


def test_batch_repeated_after_a_crash_counts_once() -> None:
    app = App(fixed_s=0.5)
    rows = app.run(60, 300)
    again = replace(rows[-1], generation=2, time=rows[-1].time + timedelta(seconds=6))
    app.restart(6, 300, slots=4, rows_per_s=2000)
    rows += [again, *app.run(20, 300)]
    assert rates(history(untold(rows))).arrival_rows_per_s == pytest.approx(300, rel=0.05)


@pytest.mark.parametrize("gap", ["batches", "epoch", "basis", "clock"])
def test_curve_starts_over_if_rows_are_not_consecutive(gap: str) -> None:
    app = App(fixed_s=0.5)
    rows = untold(app.run(30, 5000))
    app.clock, app.source_end, app.read = app.clock + timedelta(seconds=5), 0.0, 0.0
    if gap == "batches":
        app.batch_id += 3
    if gap == "clock":
        app.clock -= timedelta(hours=1)
    later = untold(app.run(20, 200))
    if gap == "epoch":
        later = [replace(row, epoch=1) for row in later]
    if gap == "basis":
        rows = [replace(row, arrival_basis=None) for row in rows]
    told = rates(history([*rows, *later], period_s=60))
    assert told.arrival_rows_per_s == pytest.approx(200, rel=0.1)


def test_rows_of_a_source_that_counts_are_unchanged() -> None:
    rows = ran(300.0)
    assert with_arrivals(rows) == tuple(rows)
    assert with_arrivals([]) == ()
    assert arrival_basis(history(rows)) is ArrivalBasis.COUNTED


def test_full_batches_without_a_pause_give_a_lower_bound() -> None:
    found = history(untold(ran(3000.0, cap=1000), READ))
    assert arrival_basis(found) is ArrivalBasis.AT_LEAST
    assert rates(found).arrival_rows_per_s == pytest.approx(1000 / 1.5, rel=0.03)  # 1,000 rows per batch of 1.5 s


def test_limited_batches_with_pauses_show_the_arrival_rate() -> None:
    app, rows = App(fixed_s=0.2), []
    for _ in range(30):
        app.arrive(2.0, 300)
        rows.append(app.batch(300))
    found = history(untold(rows, READ))
    assert arrival_basis(found) is READ
    assert rates(found).arrival_rows_per_s == pytest.approx(300, rel=0.05)


def test_limited_batches_that_are_not_full_show_the_arrival_rate() -> None:
    app = App(fixed_s=0.5, cap=1000)
    rows = app.run(60, 3000)
    app.source_end = app.read  # it has caught up
    rows += app.run(60, 400)
    found = history(untold(rows, READ))
    assert arrival_basis(found) is READ
    assert rates(found).arrival_rows_per_s == pytest.approx(400, rel=0.05)


def test_limited_app_that_becomes_silent_is_idle() -> None:
    app = App(cap=1000)
    rows = app.run(40, 3000)
    app.source_end = app.read
    found = history(untold([*rows, *app.idle(20)], READ))
    assert arrival_basis(found) is not ArrivalBasis.AT_LEAST
    assert found.newest.backlog_rows == 0


def test_limit_in_files_does_not_shrink_with_smaller_files() -> None:  # files hold the rows since the previous one
    app = App(cap=1000)
    large = app.run(40, 1500)
    app.cap = 400
    app.source_end = app.read
    assert batch_rows_limit(history([*large, *app.run(40, 600)]).batches) == 1000


@given(seed=st.integers(0, 99))
def test_listed_files_give_rate_and_backlog_of_a_limited_source(seed: int) -> None:
    app = App(cap=1000)
    app.rng.seed(seed)
    rows = untold(app.run(120, 900), LISTED)
    noisy = [
        replace(row, backlog_rows=round((row.backlog_rows or 0) * app.rng.uniform(0.98, 1.02)) if n % 3 == 0 else None)
        for n, row in enumerate(rows)
    ]
    found, period_s = history(noisy, period_s=60), 60
    waiting = rows[-1].backlog_rows or 0
    assert rates(found).arrival_rows_per_s == pytest.approx(900, abs=2 * 0.02 * waiting / period_s + 30)
    assert found.newest.backlog_rows == pytest.approx(waiting, rel=0.15)
    assert arrival_basis(found) is LISTED
    assert batch_rows_limit(found.batches) == pytest.approx(1000, rel=0.02)


def seen(tmp_path: Path, rows: list[BatchMetrics]) -> AppSignals:
    signals = collect(spec(), ControlTables(lake_of(tmp_path, rows)), Cursor(), START + timedelta(minutes=10))
    return signals.apps[0]


def test_signals_of_a_source_that_does_not_count_say_how_they_are_known(tmp_path: Path) -> None:
    app = seen(tmp_path, untold(ran(lambda t: 600 + 4 * t)))
    assert app.arrival_basis is TAKEN
    assert app.arrival_rows_per_s == pytest.approx(920, rel=0.05)
    assert app.capacity is not None and app.backpressured_ratio == 0.0


def test_signals_of_rows_without_information_have_no_rate(tmp_path: Path) -> None:
    former = [replace(row, source_end=None, backlog_rows=None) for row in ran(300.0)]
    app = seen(tmp_path, former)
    assert (app.arrival_rows_per_s, app.backlog_rows, app.arrival_basis) == (None, None, ArrivalBasis.COUNTED)


def counted(rows: list[BatchMetrics]) -> list[BatchMetrics]:
    return [replace(row, arrival_basis=ArrivalBasis.COUNTED) for row in rows]


@given(origin=st.integers(-100_000, 100_000))
def test_rate_over_a_restart_does_not_depend_on_the_drivers_first_count(origin: int) -> None:
    app = App(fixed_s=0.5)
    before = counted(app.run(60, 300))
    app.restart(12, 300, slots=8, rows_per_s=4000)
    after = counted(app.run(8, 300))
    moved = [replace(row, source_end=(row.source_end or 0) + origin) for row in after]
    assert rates(history([*before, *moved])) == rates(history([*before, *after]))


@pytest.mark.parametrize("unknown", ["end", "batch"])
def test_rows_before_a_gap_in_the_counts_give_no_rate(unknown: str) -> None:
    app = App(fixed_s=0.5)
    before = counted(app.run(60, 300))
    if unknown == "batch":
        app.restart(12, 5000, slots=8, rows_per_s=4000)
        app.batch_id += 3
    after = counted(app.run(8, 300))
    if unknown == "end":
        before[-1] = replace(before[-1], source_end=None, arrival_basis=READ)
    told = with_arrivals([*before, *after])
    assert [row.source_end for row in told[: len(before)]] == [None] * len(before)
    assert told[len(before) :] == tuple(after)
