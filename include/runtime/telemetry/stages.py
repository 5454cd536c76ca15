"""The stages that a micro-batch ran, from Spark's status store (which works with the UI off).

Jobs of a query carry its run id as job group and end their description with ``batch = N``. Text behind that number
means a job of Delta's own (snapshots, statistics): no part of the batch's operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

BATCH = re.compile(r"batch = (\d+)(.*)\Z", re.DOTALL)


@dataclass(frozen=True)
class Stage:
    """A completed stage.

    Attributes:
        job: Id of the job that ran it.
        tasks: Number of its tasks, >= 1.
        run_ms: Time of all its tasks together, Python workers and waits included.
        rdds: Ids of the RDDs computed in it: what ties it to a node of the plan.
    """

    job: int
    tasks: int
    run_ms: int
    rdds: frozenset[int]


class StageReader:
    """Reads the stages of one query run, each job once.

    Args:
        spark_context: The driver's SparkContext.
        run_id: Run id of the query.
    """

    def __init__(self, spark_context: Any, run_id: str) -> None:
        self._store = spark_context._jsc.sc().statusStore()
        self._run_id = run_id
        self._seen = -1

    def read(self, batch_id: int) -> tuple[Stage, ...]:
        """Return the completed stages of a batch in the order of their jobs, Delta's own jobs left out."""
        jobs = list(self._jobs(batch_id))
        if jobs:
            self._seen = max(self._seen, max(job.jobId() for job in jobs))
        stages = [stage for job in reversed(jobs) if _is_main(job) for stage in self._stages(job)]
        return tuple(stages)

    def _jobs(self, batch_id: int) -> Iterator[Any]:
        """Yield the batch's jobs, newest first; those of the next batch may be listed already."""
        jobs = self._store.jobsList(None).iterator()
        while jobs.hasNext():
            job = jobs.next()
            if job.jobId() <= self._seen:
                return
            group = job.jobGroup()
            if group.isDefined() and group.get() == self._run_id and _batch(job) in (None, batch_id):
                yield job

    def _stages(self, job: Any) -> Iterator[Stage]:
        for stage_id in filter(None, job.stageIds().mkString(",").split(",")):
            stage = self._store.lastStageAttempt(int(stage_id))
            if stage.status().toString() == "COMPLETE":
                rdds = frozenset(int(i) for i in stage.rddIds().mkString(",").split(",") if i)
                yield Stage(job.jobId(), stage.numTasks(), stage.executorRunTime(), rdds)


def _description(job: Any) -> str:
    found = job.description()
    return str(found.get()) if found.isDefined() else ""


def _batch(job: Any) -> int | None:
    """Return the batch a job belongs to; None where the user's code described the job anew."""
    found = BATCH.search(_description(job))
    return int(found[1]) if found else None


def _is_main(job: Any) -> bool:
    found = BATCH.search(_description(job))
    return found is None or not found[2]
