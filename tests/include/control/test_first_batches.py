"""A backlog at launch is sized for after two batches, using the throughput of full batches."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from millrace.control.batch_history import History
from millrace.control.collect import collect
from millrace.control.first_batches import change_s, first_batches
from millrace.lake.control_tables import ControlTables
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.protocols import Cursor
from millrace.model.signals import Capacity, Signals
from millrace.model.telemetry import BatchMetrics
from millrace.optimizers.conformance.builders import deployment
from millrace.optimizers.registry import create
from tests.include.control.synthetic import START, App, lake_of, spec


def launched(batches: int, **changes: float) -> list[BatchMetrics]:
    """Batches of 5,000 rows at 2 ms per row on one slot. At launch 200,000 rows wait, and the first batch is cold."""
    app = App(slots=1, fixed_s=6.0, rows_per_s=500.0, tasks=6, cap=5000, source_end=200_000, **changes)
    rows = [app.batch(0.0)]
    app.fixed_s = 1.9
    return [*rows, *(app.batch(0.0) for _ in range(batches - 1))]


def history(rows: list[BatchMetrics]) -> History:
    return History(tuple(rows), rows[-1].time - timedelta(seconds=20), rows[-1].time)


def collected(path: Path, rows: list[BatchMetrics]) -> Signals:
    store = ReconfigurationStore(lake_of(path, rows))
    begin, first = START - timedelta(seconds=9), rows[0].time
    store.record(
        Reconfiguration("delays", "delays", None, "T2", None, 1, 1, begin, first, None, Outcome.READY),
    )
    return collect(spec(), ControlTables(store.lake), Cursor(), rows[-1].time + timedelta(seconds=1))


def test_two_batches_are_enough_for_a_backlog(tmp_path: Path) -> None:
    signals = collected(tmp_path, launched(2))
    (app,) = signals.apps
    assert signals.settling and app.capacity is None and app.batch_rows_limit == 5000
    first = app.first_batches
    assert first is not None and first.parallelism == 1
    assert first.rows_per_s == pytest.approx(500, rel=0.05)
    assert first.fixed_s == pytest.approx(1.9, abs=0.3)
    proposal, _ = create("flow", {}).propose(replace(signals, bounds=replace(signals.bounds, max_slots=6)),
                                             deployment(1), {})  # fmt: skip
    assert [(c.before, c.value) for c in proposal.changes] == [(1, 6)]
    assert "1 slot can sustain 420 rows/s" in proposal.sentence


def test_two_batches_are_enough_if_batches_get_longer_and_longer(tmp_path: Path) -> None:
    """Batches are not limited: 900 rows/s arrive, and a slot processes 500."""
    app = App(slots=1, fixed_s=1.9, rows_per_s=500.0)
    rows = [app.batch(900.0) for _ in range(3)]
    signals = collected(tmp_path, rows)
    (seen,) = signals.apps
    assert seen.capacity is None and seen.first_batches is not None and seen.batch_rows_limit is None
    assert seen.first_batches.rows_per_s == pytest.approx(500, rel=0.1)
    wide = replace(signals, settling=False, bounds=replace(signals.bounds, max_slots=6))
    (change,) = create("flow", {}).propose(wide, deployment(1), {})[0].changes
    assert change.before == 1 and change.value >= 3


def test_small_batch_before_a_burst_shows_nothing() -> None:
    app = App(slots=4, fixed_s=1.9, rows_per_s=500.0)
    rows = [app.batch(2.0), app.batch(2.0), app.batch(900.0)]
    assert (rows[-1].backlog_rows or 0) > rows[-1].rows_in and first_batches(history(rows)) is None


def test_batch_of_two_rows_after_a_quiet_night_is_not_a_full_one(tmp_path: Path) -> None:
    """Of five rows that waited, three had come after it was planned."""
    app = App(slots=2, fixed_s=3.0, rows_per_s=500.0)
    rows = [app.batch(1.0) for _ in range(5)]
    planned = replace(rows[-1], rows_in=2, backlog_rows=17, source_end=(rows[-1].source_end or 0) + 14)
    rows = [*rows[:-1], replace(rows[-1], backlog_rows=5), replace(planned, batch_id=9, time=app.clock)]
    (seen,) = collected(tmp_path, rows).apps
    assert seen.batch_rows_limit is None and seen.first_batches is None and seen.capacity is None


def test_one_batch_or_a_batch_that_takes_all_rows_is_not_enough(tmp_path: Path) -> None:
    assert first_batches(history(launched(1))) is None
    app = App(slots=1, fixed_s=1.9, rows_per_s=500.0)
    assert first_batches(history([app.batch(300.0) for _ in range(5)])) is None
    (seen,) = collected(tmp_path, [app.batch(300.0) for _ in range(5)]).apps
    assert seen.first_batches is None


def test_first_batch_that_runs_for_long_is_named(tmp_path: Path) -> None:
    app = App(slots=1)
    rows = [replace(row, backlog_rows=None, source_end=None) for row in app.running(640, 50.0)]
    assert {row.batch_id for row in rows} == {-1}
    signals = collected(tmp_path, rows)
    assert signals.apps[0].first_batch_s == 640
    for settling in (True, False):
        proposal, _ = create("conttune", {}).propose(replace(signals, settling=settling), deployment(1), {})
        assert (proposal.changes, proposal.reason_code) == ((), "first_batch")
        assert "has been running for 640 s" in proposal.sentence
    ended = collected(tmp_path / "later", [*rows, app.batch(50.0), *app.running(40, 50.0)])
    assert ended.apps[0].first_batch_s is None


def test_first_batches_are_those_at_the_present_slots() -> None:
    rows = launched(4)
    assert first_batches(history([*rows[:3], replace(rows[3], slots=2)])) is None
    assert first_batches(history([*rows[:2], replace(rows[2], slots=2), replace(rows[3], slots=2)])) is not None


def test_first_batches_without_useful_time_count_entirely_as_work() -> None:
    rows = [replace(r, operators=tuple(replace(o, useful_s=None) for o in r.operators)) for r in launched(2)]
    first = first_batches(history(rows))
    assert first is not None
    assert (first.fixed_s, first.rows_per_s) == (pytest.approx(0.0), pytest.approx(5000 / 11.9, rel=0.01))
    assert first.rows_per_s_error == pytest.approx(first.rows_per_s / 2)


def test_change_costs_the_extra_time_of_its_cold_batches() -> None:
    app = App(slots=2, fixed_s=1.0, rows_per_s=1000.0, cap=1000, source_end=1e6)
    rows = [app.batch(0.0) for _ in range(4)]
    app.slots, app.fixed_s = 4, 6.0
    rows += [app.batch(0.0) for _ in range(2)]
    app.fixed_s = 1.0
    rows += [app.batch(0.0) for _ in range(4)]
    app.slots, app.fixed_s = 2, 6.0
    rows += [app.batch(0.0) for _ in range(2)]
    fitted = {p: Capacity(p, 1.0, 1000.0, 10.0, 5) for p in (2, 4)}
    assert change_s(history(rows), fitted) == pytest.approx(10.0, abs=0.1)
    assert change_s(history(rows[:11]), fitted) is None, "its second batch has not run yet"
    assert change_s(history(rows[:10]), fitted) is None, "the first change after a launch meets a cold driver"
    assert change_s(history(rows), {}) is None


def test_change_by_a_restart_also_costs_its_downtime() -> None:
    app = App(slots=2, fixed_s=1.0, rows_per_s=1000.0)
    rows = app.run(10, 500.0)
    app.restart(12.0, 500.0, 4, 1000.0)
    rows += app.run(30, 500.0)
    fitted = {p: Capacity(p, 1.0, 1000.0, 10.0, 5) for p in (2, 4)}
    assert change_s(history(rows), fitted) == pytest.approx(12.0, abs=0.5)
