"""A rise is seen before the running batch ends, and a running batch does not look like an idle query."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from millrace.control.arrivals import with_arrivals
from millrace.control.batch_history import is_idle_marker, is_marker, running_s, sound
from millrace.control.collect import collect
from millrace.control.quality.frames import batches_frame
from millrace.lake.control_tables import ControlTables
from millrace.lake.rows_since import read_since
from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.objective import Objective
from millrace.model.protocols import Cursor
from millrace.model.signals import AppSignals
from millrace.model.telemetry import BatchMetrics
from millrace.optimizers.conformance.builders import deployment, signals
from millrace.optimizers.registry import create
from tests.include.control.synthetic import App, lake_of, spec


def seen(path: Path, rows: list[BatchMetrics]) -> AppSignals:
    now = rows[-1].time + timedelta(seconds=1)
    return collect(spec(), ControlTables(lake_of(path, rows)), Cursor(), now).apps[0]


def test_rise_is_seen_while_a_batch_runs(tmp_path: Path) -> None:
    app = App(rows_per_s=2000.0)
    rows = app.run(60, 1000.0)
    found = seen(tmp_path, [*rows, *app.running(12, 3000.0)])
    assert found.arrival_recent_rows_per_s == pytest.approx(3000, rel=0.01)
    assert found.backlog_rows == pytest.approx(12 * 3000, rel=0.01), "without what the batch reads"
    assert found.busy_ratio == pytest.approx(1.0)
    assert found.capacity is not None and found.capacity.rows_per_s == pytest.approx(2000, rel=0.05)


def test_step_up_is_proposed_while_a_batch_runs(tmp_path: Path) -> None:
    app = App(rows_per_s=2000.0)
    found = seen(tmp_path, [*app.run(60, 1000.0), *app.running(12, 3000.0)])
    proposal, _ = create("flow", {}).propose(signals(found, objective=Objective()), deployment(4), {})
    (change,) = proposal.changes
    assert change.value > 4


def test_steady_load_is_the_same_in_mid_batch_as_at_the_end(tmp_path: Path) -> None:
    app = App(rows_per_s=2000.0, fixed_s=4.0)
    rows = app.run(120, 1000.0)
    at_end, in_batch = seen(tmp_path / "a", rows), seen(tmp_path / "b", [*rows, *app.running(4, 1000.0)])
    for name in ("arrival_rows_per_s", "busy_ratio", "processed_rows_per_s"):
        assert getattr(in_batch, name) == pytest.approx(getattr(at_end, name), rel=0.05)
    assert (in_batch.backlog_rows or 0) <= (at_end.backlog_rows or 0)
    assert in_batch.batch_rows_limit == at_end.batch_rows_limit is None


def test_rows_left_by_a_limited_batch_still_wait(tmp_path: Path) -> None:
    app = App(rows_per_s=2000.0, cap=3000)
    rows = [*app.run(60, 2000.0), *app.running(8, 2000.0)]
    left = rows[-1].backlog_rows
    assert left is not None
    assert with_arrivals(rows)[-1].backlog_rows == pytest.approx(left - 3000, rel=0.01)


def test_running_batch_is_neither_idle_nor_a_batch() -> None:
    app = App()
    rows = app.run(20, 100.0)
    (marker,) = app.running(4, 100.0)
    assert is_marker(marker) and not is_idle_marker(marker) and running_s(marker) == 4.0
    assert marker not in sound([*rows, marker])
    (idle,) = app.idle(10)
    assert is_idle_marker(idle) and running_s(idle) == 0.0


def test_running_batch_does_not_settle_a_change(tmp_path: Path) -> None:
    app = App()
    rows = app.run(60, 0.0)
    ended = rows[-1].time
    change = Reconfiguration(
        "delays", "delays", None, "T1", 1, 2, 1, ended - timedelta(seconds=5), ended, 0.0, Outcome.READY
    )
    tables = ControlTables(lake_of(tmp_path, [*rows, *app.running(12, 0.0)]))
    tables.reconfigurations.record(change)
    assert collect(spec(), tables, Cursor(), app.clock + timedelta(seconds=1)).settling


def test_markers_of_a_running_batch_pass_the_quality_gate(tmp_path: Path) -> None:
    app = App(rows_per_s=2000.0)
    rows = [*app.run(60, 1000.0), *app.running(12, 3000.0)]
    rows += app.run(30, 3000.0)
    new = read_since(lake_of(tmp_path, rows), "telemetry/batches", "delays", -1)
    frame = batches_frame(new, rows[-1].time)
    assert not frame["missing_duration"].any()
    assert frame["unread_rows"].max() == 0
    assert frame["silent_s"].max() <= 4.0
