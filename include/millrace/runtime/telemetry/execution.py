"""What ran in a micro-batch, read from the JVM into plain values: its plan with SQL metrics, and its stages.

Where a stage begins and ends is seen from the plan's exchanges; the RDD that an exchange writes ties the part of the
plan below it to the stage that ran it. Stages come from Spark's status store, which works with the UI off: jobs of a
query carry its run id as job group and end their description with ``batch = N``. Text behind that number means a job of
Delta's own (snapshots, statistics): no part of the batch's operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from millrace.model.telemetry import STATEFUL
from millrace.runtime.telemetry.stage_tasks import TaskReader

PYTHON = re.compile(r"InPandas|InArrow|InPySpark|EvalPython|ArrowAggregate|ArrowWindow|PythonUDTF|PythonMapIn")
WRITES = re.compile(r"^(WriteToDataSourceV2|WriteToContinuous|AppendData|OverwriteBy|ReplaceData|WriteDelta)")
STAGE_OF_ADAPTIVE = re.compile(r"QueryStage$")
NAMES_STATE = re.compile(r"StateStore(Save|Restore)|SymmetricHashJoin|Deduplicate|WithState|StreamingGlobalLimit")
"""Names of the nodes that tell which state they use; those that only read it are among them."""


@dataclass(frozen=True)
class Boundary:
    """What the plan says of a stage.

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
        name: Spark's name of it.
        rows: Rows it gave out; None where neither it nor its children count.
        python_ms: Time of its Python workers while they processed, what they waited for their input included;
            None for nodes of the JVM.
        python_total_ms: The same with the start of the workers.
        below: The stage that ends at this node; None inside a stage.
        children: The nodes it reads from.
        state: The state it uses; None if it uses none.
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
        """Say whether the node keeps state."""
        return bool(STATEFUL.search(self.name))


@dataclass(frozen=True)
class ExecutedPlan:
    """The plan of one batch: its root and the stage that ends there."""

    root: Node
    end: Boundary


class Executions:
    """The last execution of a running query, kept by batch, as the next batch may replace it at any moment.

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
    # execute() of a node that has run returns the RDD it made then; nothing is computed by asking
    return ExecutedPlan(root, Boundary(executed.execute().id(), None))


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
    rows = [child.rows for child in children]  # a node that does not count passes its rows on
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
    except Py4JError:  # another library's node of such a name
        return None
    return StateOperator(int(info.get().operatorId()), int(info.get().numPartitions())) if info.isDefined() else None


def _boundary(plan: Any, name: str) -> Boundary | None:
    if name == "Exchange":
        shuffle = plan.shuffleDependency()
        return Boundary(int(shuffle.rdd().id()), int(plan.numMappers()), int(shuffle.shuffleId()))
    if name == "BroadcastExchange":  # runs under a job group of its own
        return Boundary(None, None)
    return None


BATCH = re.compile(r"batch = (\d+)(.*)\Z", re.DOTALL)


@dataclass(frozen=True)
class Stage:
    """A completed stage.

    Attributes:
        id: Spark's id.
        attempt: Its attempt that completed, >= 0.
        job: Id of the job that ran it.
        tasks: Number of its tasks, >= 1.
        run_ms: Time of all its tasks together, Python workers and waits included; of each task the attempt that
            succeeded.
        rdds: Ids of the RDDs computed in it: what ties it to a node of the plan.
    """

    id: int
    attempt: int
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
        self._tasks = TaskReader(spark_context)
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
                ran = (int(stage_id), stage.attemptId(), job.jobId(), stage.numTasks())
                yield Stage(*ran, self._run_ms(stage), rdds)

    def _run_ms(self, stage: Any) -> int:
        if not stage.numFailedTasks() + stage.numKilledTasks():
            return int(stage.executorRunTime())
        # Spark adds up all attempts, those that speculation started twice as well
        tasks = self._tasks.read(stage.stageId(), stage.attemptId(), stage.numTasks())
        return round(1000 * sum(task.run_s for task in tasks))


def _description(job: Any) -> str:
    text = job.description()
    return str(text.get()) if text.isDefined() else ""


def _batch(job: Any) -> int | None:
    """Return the batch a job belongs to; None where the user's code described the job anew."""
    match = BATCH.search(_description(job))
    return int(match[1]) if match else None


def _is_main(job: Any) -> bool:
    match = BATCH.search(_description(job))
    return match is None or not match[2]
