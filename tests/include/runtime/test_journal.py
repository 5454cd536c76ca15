from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from millrace.run_folder import driver_records
from millrace.run_folder.arguments import DriverArguments
from millrace.run_folder.driver_records import DriverState
from millrace.runtime.journal import Journal

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


def arguments(run_dir: Path) -> DriverArguments:
    return DriverArguments(
        pipeline="p", app="a", generation=1, version=1, slots=2, epoch=0, run_dir=run_dir, lake=str(run_dir / "lake"),
        period_s=10.0, ready_deadline_s=60.0, stop_deadline_s=60.0, script=Path("s.py"), args=(),
    )  # fmt: skip


def test_record_that_cannot_be_written_waits_for_the_next_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_dir, away = tmp_path / "run", tmp_path / "away"
    journal = Journal(arguments(run_dir))
    run_dir.rename(away)
    run_dir.write_text("no folder")
    journal.move(DriverState.RUNNING)
    journal.resized(2, 4)
    journal.advanced()
    waiting = [r for r in caplog.records if "cannot be written yet" in r.message]
    assert waiting[1:] == [], "said once"
    assert caplog.records
    run_dir.unlink()
    away.rename(run_dir)
    journal.committed(NOON)
    record = driver_records.read(run_dir, "p", "a", 1)
    assert record is not None and record == journal.record
    assert (record.state, record.version, record.slots, record.last_commit_at) == (DriverState.RUNNING, 2, 4, NOON)


def test_driver_that_cannot_be_recorded_at_all_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("no folder")
    with pytest.raises(Exception, match="run folder"):
        Journal(arguments(tmp_path / "run"))
