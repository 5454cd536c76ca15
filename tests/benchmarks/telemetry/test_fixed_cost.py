from __future__ import annotations

import json
from pathlib import Path

from benchmarks.telemetry.fixed_cost import PROGRESS, durations_s


def line(batch: int, rows: list[int], took_ms: int) -> str:
    sources = [{"description": "DeltaSource[x]", "numInputRows": count} for count in rows]
    progress = {"batchId": batch, "durationMs": {"triggerExecution": took_ms, "addBatch": 1}, "sources": sources}
    return json.dumps({"Event": PROGRESS, "progress": progress})


def test_durations_are_those_of_later_batches_with_rows_in_the_order_of_the_log(tmp_path: Path) -> None:
    other = json.dumps({"Event": "SparkListenerTaskEnd", "Task Info": PROGRESS})
    lines = [line(3, [1], 9000), line(4, [0, 2], 2500), other, line(5, [0, 0], 900), line(6, [1, 0], 1200)]
    (tmp_path / "app-1").write_text("\n".join(lines))
    assert durations_s(tmp_path, 4) == [2.5, 1.2]
    assert durations_s(tmp_path, 7) == []
