"""What ran in a micro-batch, read from the JVM into plain values: its plan with SQL metrics, and its stages.

The plan's exchanges show where stages start and end. The RDD that an exchange writes ties the part of the plan below
it to the stage that ran it. Stages come from Spark's status store, which works with the UI off. Jobs of a query have
its run id as job group, and their description ends with ``batch = N``. Text after that number marks one of Delta's own
jobs (snapshots, statistics), which is not part of the batch's operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from millrace.model.telemetry import STATEFUL
from millrace.runtime.spark_versions import KEPT_RDD, numbers
from millrace.runtime.telemetry.stage_tasks import TaskReader

PYTHON = re.compile(r"InPandas|InArrow|InPySpark|EvalPython|ArrowAggregate|ArrowWindow|PythonUDTF|PythonMapIn")
WRITES = re.compile(r"^(WriteToDataSourceV2|WriteToContinuous|AppendData|OverwriteBy|ReplaceData|WriteDelta)")
STAGE_OF_ADAPTIVE = re.compile(r"QueryStage$")
NAMES_STATE = re.compile(r"StateStore(Save|Restore)|SymmetricHashJoin|Deduplicate|WithState|StreamingGlobalLimit")
"""Names of the nodes that say which state they use, including those that only read it."""


@dataclass(frozen=True)
class Boundary:
    """What the plan says about a stage.

    Attributes:
        rdd: Id of the last RDD of the stage; None if the plan does not say.
        tasks: Number of its tasks; None if the plan does not say.
        shuffle: Id of the shuffle that its tasks write; None if they write none, or the plan does not say.
    """

    rdd: int | None
    tasks: int | None
    shuffle: int | None = None


@dataclass(frozen=True)
class StateOperator:
    """The state that a node uses.

    Attributes:
        id: The operator's id: the name of its folder in the checkpoint's ``state``.
        partitions: Number of its partitions, >= 1.
    """

    id: int
    partitions: int


@dataclass(frozen=True)
class Node:
    """A node of the plan.

    Attributes:
        name: Spark's name of the node.
        rows: Rows that it output; None if neither it nor its children count.
        python_ms: Time that its Python workers processed, including waits for their input; None for nodes of the JVM.
        python_total_ms: The same, including the start of the workers.
        below: The stage that ends at this node; None inside a stage.
        children: The nodes from which it reads.
        state: The state that it uses; None if it uses none.
    """

    name: str
    rows: int | None
    python_ms: int | None
    python_total_ms: int | None
    below: Boundary | None
    children: tuple[Node, ...]
    state: StateOperator | None = None

    @property
    def stateful(self) -> bool:
        """Whether the node keeps state."""
        return bool(STATEFUL.search(self.name))


@dataclass(frozen=True)
class ExecutedPlan:
    """The plan of one batch: its root and the stage that ends there."""

    root: Node
    end: Boundary


class Executions:
    """Keeps the last executions of a running query by batch, as the next batch may replace them at any moment.

    Args:
        query: The JVM's ``StreamExecution``.
    """

    def __init__(self, query: Any) -> None:
        self._query = query
        self._ahead: dict[int, Any] = {}

    def plan(self, batch_id: int) -> ExecutedPlan | None:
        """Return the plan that ran ``batch_id``, None if it is gone."""
        execution = self._query.lastExecution()
        if execution is None:
            return None
        current = execution.currentBatchId()
        executed = execution if current == batch_id else self._ahead.get(batch_id)
        self._ahead = {current: execution} if current > batch_id else {}
        return None if executed is None else _plan(executed.executedPlan())


def _plan(executed: Any) -> ExecutedPlan:
    while WRITES.match(executed.nodeName()) and executed.children().size() == 1:
        executed = executed.children().apply(0)
    root = _node(executed)
    # execute() of a node that has run returns the RDD it made then; asking computes nothing
    made = executed.execute().id() if numbers(pyspark.__version__) >= KEPT_RDD else None
    return ExecutedPlan(root, Boundary(made, None))


def _node(plan: Any) -> Node:
    name = str(plan.nodeName()).strip()
    if name == "AdaptiveSparkPlan":
        return _node(plan.executedPlan())
    if STAGE_OF_ADAPTIVE.search(name):
        return _node(plan.plan())
    children = plan.children()
    below = tuple(_node(children.apply(i)) for i in range(children.size()))
    metrics = plan.metrics()
    python = bool(PYTHON.search(name))
    return Node(
        name=name,
        rows=_rows(metrics, below, python),
        python_ms=_metric(metrics, "pythonProcessingTime", "pythonTotalTime") if python else None,
        python_total_ms=_metric(metrics, "pythonTotalTime") if python else None,
        below=_boundary(plan, name),
        children=below,
        state=_state(plan, name),
    )


def _rows(metrics: Any, children: tuple[Node, ...], python: bool) -> int | None:
    names = ("pythonNumRowsReceived", "numOutputRows") if python else ("numOutputRows", "shuffleRecordsWritten")
    counted = _metric(metrics, *names)
    if counted is not None:
        return counted
    rows = [child.rows for child in children]  # a node without a count passes its rows on
    return sum(r for r in rows if r is not None) if rows and None not in rows else None


def _metric(metrics: Any, *names: str) -> int | None:
    for name in names:
        metric = metrics.get(name)
        if metric.isDefined():
            return int(metric.get().value())
    return None


def _state(plan: Any, name: str) -> StateOperator | None:
    if not NAMES_STATE.search(name):
        return None
    try:
        info = plan.stateInfo()
    except Py4JError:  # another library's node with such a name
        return None
    return StateOperator(int(info.get().operatorId()), int(info.get().numPartitions())) if info.isDefined() else None


def _boundary(plan: Any, name: str) -> Boundary | None:
    if name == "Exchange":
        shuffle = plan.shuffleDependency()
        return Boundary(int(shuffle.rdd().id()), int(plan.numMappers()), int(shuffle.shuffleId()))
    if name == "BroadcastExchange":  # runs under its own job group
        return Boundary(None, None)
    return None


BATCH = re.compile(r"batch = (\d+)(.*)\Z", re.DOTALL)


@dataclass(frozen=True)
class Stage:
    """A completed stage.

    Attributes:
        id: Spark's id.
        attempt: The attempt that completed, >= 0.
        job: Id of the job that ran it.
        tasks: Number of its tasks, >= 1.
        run_ms: Run time of all its tasks together, including Python workers and waits. Only each task's successful
            attempt counts.
        rdds: Ids of the RDDs computed in it, which tie it to a node of the plan.
        gc_ms: Time that garbage collection took of its tasks, those that failed included.
    """

    id: int
    attempt: int
    job: int
    tasks: int
    run_ms: int
    rdds: frozenset[int]
    gc_ms: int = 0


class StageReader:
    """Reads the stages of one query run, each job once.

    Args:
        spark_context: The driver's SparkContext.
        run_id: Run id of the query.
    """

    def __init__(self, spark_context: Any, run_id: str) -> None:
        self._store = spark_context._jsc.sc().statusStore()
        self._tasks = TaskReader(spark_context)
        self._run_id = run_id
        self._seen = -1

    def read(self, batch_id: int) -> tuple[Stage, ...]:
        """Return the completed stages of a batch in the order of their jobs, without Delta's own jobs."""
        jobs = list(self._jobs(batch_id))
        if jobs:
            self._seen = max(self._seen, max(job.jobId() for job in jobs))
        stages = [stage for job in reversed(jobs) if _is_main(job) for stage in self._stages(job)]
        return tuple(stages)

    def _jobs(self, batch_id: int) -> Iterator[Any]:
        """Yield the batch's jobs, newest first; jobs of the next batch may already be listed."""
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
                ran = (int(stage_id), stage.attemptId(), job.jobId(), stage.numTasks())
                yield Stage(*ran, self._run_ms(stage), rdds, int(stage.jvmGcTime()))

    def _run_ms(self, stage: Any) -> int:
        if not stage.numFailedTasks() + stage.numKilledTasks():
            return int(stage.executorRunTime())
        # Spark adds up all attempts, including speculative ones
        tasks = self._tasks.read(stage.stageId(), stage.attemptId(), stage.numTasks())
        return round(1000 * sum(task.run_s for task in tasks))


def _description(job: Any) -> str:
    text = job.description()
    return str(text.get()) if text.isDefined() else ""


def _batch(job: Any) -> int | None:
    """Return the batch that a job belongs to; None if the user's code replaced the job's description."""
    match = BATCH.search(_description(job))
    return int(match[1]) if match else None


def _is_main(job: Any) -> bool:
    match = BATCH.search(_description(job))
    return match is None or not match[2]
