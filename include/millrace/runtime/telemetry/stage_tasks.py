"""The tasks of a stage, one by one: where each ran, for how long, and what it read.

They come from Spark's status store, which works with the UI off. The JVM turns them into text, so each stage costs one
call however many tasks it has. Spark internals: pinned to its version, covered by tests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ATTEMPTS = 4
"""Mean number of attempts per task up to which all attempts of a stage are found."""


@dataclass(frozen=True)
class Task:
    """A successful task.

    Attributes:
        partition: The partition that it computed, >= 0.
        executor: Spark's id of the executor that ran it.
        host: Host of that executor.
        rows_in: Rows that it read from shuffles and sources.
        run_s: Run time, seconds, including Python workers and waits.
        local_bytes: Shuffle bytes that it read from its own executor.
        remote_bytes: Shuffle bytes that it read from other executors.
    """

    partition: int
    executor: str
    host: str
    rows_in: int
    run_s: float
    local_bytes: int
    remote_bytes: int


class TaskReader:
    """Reads the tasks of completed stages.

    Args:
        spark_context: The driver's SparkContext.
    """

    def __init__(self, spark_context: Any) -> None:
        self._store = spark_context._jsc.sc().statusStore()
        # Spark's REST interface writes its responses with it
        self._mapper = spark_context._jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()

    def read(self, stage: int, attempt: int, tasks: int) -> tuple[Task, ...]:
        """Return a stage's successful tasks, by partition.

        Args:
            stage: Spark's id of the stage.
            attempt: The attempt of the stage, >= 0.
            tasks: Number of its tasks, >= 1.
        """
        listed = self._store.taskList(stage, attempt, ATTEMPTS * tasks)
        return succeeded(self._mapper.writeValueAsString(listed))


def succeeded(text: str) -> tuple[Task, ...]:
    """Return the successful tasks, by partition.

    Args:
        text: A JSON list of all attempts, as Spark's REST interface returns it.
    """
    ended = [attempt for attempt in json.loads(text) if attempt["status"] == "SUCCESS" and attempt.get("taskMetrics")]
    # if two attempts succeeded, the later one has reported where the state is
    by_partition = {_partition(a): _task(a) for a in sorted(ended, key=lambda attempt: int(attempt["taskId"]))}
    return tuple(task for _, task in sorted(by_partition.items()))


def _partition(attempt: Mapping[str, Any]) -> int:
    # a stage that runs again for lost output numbers only the tasks that it repeats
    known = int(attempt.get("partitionId", -1))
    return known if known >= 0 else int(attempt["index"])


def _task(attempt: Mapping[str, Any]) -> Task:
    metrics = attempt["taskMetrics"]
    shuffled = metrics["shuffleReadMetrics"]
    return Task(
        partition=_partition(attempt),
        executor=str(attempt["executorId"]),
        host=str(attempt["host"]),
        rows_in=int(shuffled["recordsRead"]) + int(metrics["inputMetrics"]["recordsRead"]),
        run_s=int(metrics["executorRunTime"]) / 1000.0,
        local_bytes=int(shuffled["localBytesRead"]),
        remote_bytes=int(shuffled["remoteBytesRead"]),
    )
