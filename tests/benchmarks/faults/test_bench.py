from __future__ import annotations

import json
from pathlib import Path

from benchmarks.faults.campaign import Campaign, campaign_records
from benchmarks.faults.stack_campaign import bare_errors
from millrace.places import PACKAGE


def test_slowest_and_failed_recoveries_are_judged() -> None:
    found = Campaign({"driver_killed": [20.0, 30.0], "source_away": [200.0]}, ["master_killed"], doubled=1, lost=3)
    records = {(r.scenario, r.figure): r for r in campaign_records(found)}
    assert records["driver_killed", "recovered_s"].value == 25.0
    assert (records["all", "recovered_p95_s"].n, records["all", "recovered_p95_s"].holds) == (3, False)
    assert (records["all", "not_recovered"].value, records["all", "not_recovered"].holds) == (1, False)
    assert not records["all", "doubled_drivers"].holds
    assert not records["all", "rows_lost"].holds and records["all", "rows_doubled"].holds
    assert records["all", "tracebacks"].holds


def test_campaign_without_faults_holds() -> None:
    assert all(r.holds for r in campaign_records(Campaign({"driver_killed": [20.0]})) if r.target)


def test_our_exceptions_without_a_message_are_found_in_task_logs(tmp_path: Path) -> None:
    def logged(kind: str, value: str, file: str) -> str:
        detail = [{"exc_type": kind, "exc_value": value, "frames": [{"filename": file, "lineno": 1, "name": "f"}]}]
        return json.dumps({"event": "Task failed with exception", "error_detail": detail})

    log = tmp_path / "dag_id=adapt_delays" / "attempt=1.log"
    log.parent.mkdir()
    ours, theirs = str(PACKAGE / "control" / "loop.py"), "/site-packages/airflow/task.py"
    lines = [
        logged("AirflowRuntimeError", "timed out", ours),
        logged("KeyError", "'x'", ours),
        logged("MillraceError", "disk", ours),
        logged("OSError", "", theirs),
    ]
    log.write_text("\n".join([*lines, '{"error_detail": torn']))
    assert bare_errors(tmp_path) == ["KeyError: 'x'"]
