"""Tasks of a stage, from what Spark says of them."""

from __future__ import annotations

import json
from typing import Any

from millrace.runtime.telemetry.stage_tasks import Task, succeeded


def attempt(task_id: int, index: int, status: str = "SUCCESS", **other: Any) -> dict[str, Any]:
    return {
        "taskId": task_id,
        "index": index,
        "partitionId": index,
        "executorId": "1",
        "host": "10.0.0.1",
        "status": status,
        "taskMetrics": {
            "executorRunTime": 1500,
            "inputMetrics": {"bytesRead": 10, "recordsRead": 3},
            "shuffleReadMetrics": {"remoteBytesRead": 7, "localBytesRead": 20, "recordsRead": 40},
        },
    } | other


def test_tasks_are_those_that_succeeded_by_their_partitions() -> None:
    lost = attempt(1, 0, "FAILED", executorId="0")
    without_metrics = {k: v for k, v in attempt(5, 2, "RUNNING").items() if k != "taskMetrics"}
    listed = [attempt(3, 1), lost, attempt(4, 0, executorId="2"), without_metrics]
    same = {"host": "10.0.0.1", "rows_in": 43, "run_s": 1.5, "local_bytes": 20, "remote_bytes": 7}
    assert succeeded(json.dumps(listed)) == (Task(0, "2", **same), Task(1, "1", **same))


def test_task_that_succeeded_twice_counts_where_it_ran_last() -> None:
    (task,) = succeeded(json.dumps([attempt(9, 0, executorId="2"), attempt(4, 0, executorId="1")]))
    assert task.executor == "2"


def test_task_of_a_stage_that_repeats_lost_output_has_its_partition_and_not_its_index() -> None:
    (task,) = succeeded(json.dumps([attempt(1, 0, partitionId=5)]))
    assert task.partition == 5
