"""Tasks of a stage, from Spark's reports."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import MagicMock

import pytest

from millrace.runtime.telemetry.execution import StageReader
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


def test_tasks_are_the_successful_ones_by_partition() -> None:
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


@pytest.mark.parametrize(("killed", "run_ms"), [(0, 4500), (1, 3000)])
def test_time_of_unsuccessful_attempts_does_not_count_for_the_stage(killed: int, run_ms: int) -> None:
    """Spark's time of a stage includes attempts that speculation killed, and those that failed."""
    context = MagicMock()
    store = context._jsc.sc().statusStore()
    job, stage = MagicMock(), store.lastStageAttempt()
    job.jobId.return_value, job.stageIds().mkString.return_value = 1, "7"
    job.jobGroup().get.return_value, job.description().get.return_value = "run", "batch = 3"
    listed = store.jobsList().iterator()
    listed.hasNext.side_effect, listed.next.return_value = [True, False], job
    stage.status().toString.return_value, stage.numTasks.return_value = "COMPLETE", 2
    stage.numFailedTasks.return_value, stage.numKilledTasks.return_value = 0, killed
    stage.executorRunTime.return_value, stage.rddIds().mkString.return_value = 4500, "9"
    attempts = [attempt(1, 0), attempt(2, 1, "KILLED", speculative=True), attempt(3, 1)]
    mapper = context._jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()
    mapper.writeValueAsString.return_value = json.dumps(attempts)
    assert [read.run_ms for read in StageReader(context, "run").read(3)] == [run_ms]
