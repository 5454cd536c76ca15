from __future__ import annotations

import json
from pathlib import Path

from benchmarks.telemetry.fixed_cost import PROGRESS, durations_s


def line(event: str, rows: list[int], took_ms: int) -> str:
    sources = [{"description": "DeltaSource[x]", "numInputRows": count} for count in rows]
    progress = {"batchId": 1, "durationMs": {"triggerExecution": took_ms, "addBatch": 1}, "sources": sources}
    return json.dumps({"Event": event, "progress": progress})


def test_durations_are_those_of_batches_with_rows_in_the_order_of_the_log(tmp_path: Path) -> None:
    other = json.dumps({"Event": "SparkListenerTaskEnd", "Task Info": PROGRESS})
    lines = [line(PROGRESS, [0, 2], 2500), other, line(PROGRESS, [0, 0], 900), line(PROGRESS, [1, 0], 1200)]
    unfinished = lines[0][:60]
    (tmp_path / "app-1.inprogress").write_text("\n".join([*lines, unfinished]))
    assert durations_s(tmp_path) == [2.5, 1.2]


def test_durations_before_the_driver_has_made_a_log_are_none(tmp_path: Path) -> None:
    assert durations_s(tmp_path) == []
