"""What a running app reports: one row per committed micro-batch, one row per app and flush."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from millrace.model.arrival import ArrivalBasis
from millrace.model.attached_driver import AttachedDriver

STATEFUL = re.compile(r"StateStoreSave|SymmetricHashJoin|Deduplicate|GroupsWithState|TransformWithState|GlobalLimit")
"""Spark's names of plan nodes that keep state."""


@dataclass(frozen=True)
class OperatorBatch:
    """One operator's part of one micro-batch.

    Attributes:
        id: Stable id inside the query, for example ``0.MapInPandas``.
        name: Spark's name of the plan node.
        tasks: Tasks of the stage that ran it, >= 1; null if unknown.
        p: Tasks that really ran at once, min(tasks, slots); null if unknown.
        rows_in: Rows that entered.
        rows_out: Rows that left.
        useful_s: Time of all its tasks together, Python workers and waits included, in seconds.
    """

    id: str
    name: str
    tasks: int | None
    p: int | None
    rows_in: int | None
    rows_out: int | None
    useful_s: float | None


RUNNING = "running"
"""Key of a marker's ``durations_ms``: how long a batch has been running."""


@dataclass(frozen=True)
class BatchMetrics:
    """One committed micro-batch of one query (a row of ``telemetry/batches``).

    If no batch ends for a while, a marker takes its place: a row with ``rows_in`` 0, the last batch's id, the present
    ``source_end`` and ``backlog_rows``, and no ``triggerExecution`` (or 0). An idle marker says that no batch runs
    because nothing arrives; only a marker distinguishes an arrival rate of 0 from a missing one. The marker of a
    running batch has its time so far as ``running``; the rows that the batch reads count as waiting.

    A source that does not count its rows gives no ``source_end``; ``arrival_basis`` says what else is known of it.

    Attributes:
        pipeline: Name of the pipeline.
        app: Name of the app inside the pipeline.
        query: Name or id of the streaming query.
        time: When the batch ended (UTC).
        generation: Start number of the driver, >= 1; it only goes up.
        epoch: Checkpoint epoch of the query, >= 0.
        batch_id: Spark's batch id, >= 0; -1 in a marker before the query's first batch.
        slots: Tasks that the app can run at once, >= 1.
        rows_in: Rows read from the sources.
        rows_out: Rows written to the sink; null if the sink does not report it.
        durations_ms: Spark's durations by phase; ``triggerExecution`` is the whole batch.
        backlog_rows: Rows committed to the sources and not yet read at the end of the batch; null if unknown.
        source_end: Rows committed to the sources at the end of the batch, since the driver started to count. Its change
            per second is the true arrival rate; null if unknown.
        state_rows: Rows held in state.
        state_bytes: Bytes held in state.
        host_cpu_other: Share of the host's processors used by others during the batch, 0..1; null if unknown.
        operators: The batch's operators.
        arrival_basis: How arrival is known: counted (``backlog_rows`` and ``source_end``), planned (the same as of
            the batch's start), taken (the batch read everything there was when it started), listed (``backlog_rows`` is
            an estimate, if there is one) or read (the batch was limited, and perhaps full). Null if
            nothing is known.
        lag: Rows waiting in the source partitions (``topic/partition``) with the most; empty if the source does
            not report it.
        running_tasks: Tasks that run all the time because the query is in real-time mode; 0 if their number is unknown,
            null for micro-batches.
        trigger_s: Interval of the query's trigger, seconds; 0 if batches follow each other as fast as possible.
        sources: Rows read in this batch by the name of the source (``path:/data/silver``, ``kafka:topic``), 0 in a
            marker. Sources whose name is not known are left out.
        sink: Name of where the query writes, as another query's ``sources`` would contain it; "" if it is not known.
        gc_s: Time that garbage collection took of the batch's tasks, seconds in all; null if unknown.
        limits: Options of the query's sources that limit a batch (``maxFilesPerTrigger``), with their values; empty if
            none is set, or if sources differ.
    """

    pipeline: str
    app: str
    query: str
    time: datetime
    generation: int
    epoch: int
    batch_id: int
    slots: int
    rows_in: int
    rows_out: int | None = None
    durations_ms: Mapping[str, int] = field(default_factory=dict)
    backlog_rows: int | None = None
    source_end: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    host_cpu_other: float | None = None
    operators: tuple[OperatorBatch, ...] = ()
    arrival_basis: ArrivalBasis | None = None
    lag: Mapping[str, int] = field(default_factory=dict)
    running_tasks: int | None = None
    trigger_s: float | None = None
    sources: Mapping[str, int] = field(default_factory=dict)
    sink: str = ""
    gc_s: float | None = None
    limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def duration_s(self) -> float:
        """Length of the whole batch in seconds."""
        return self.durations_ms.get("triggerExecution", 0) / 1000.0


@dataclass(frozen=True)
class AppMetrics:
    """One app between two flushes (a row of ``telemetry/apps``).

    Attributes:
        cpu_ratio: Processor seconds per second used by the driver's process tree, 0..cores.
        rss_bytes: Resident memory of the process tree.
        up_s: Seconds since the driver started.
        host: Host of the driver.
        attached: What the driver says of itself if Millrace did not start it; None otherwise.
    """

    pipeline: str
    app: str
    time: datetime
    generation: int
    cpu_ratio: float | None
    rss_bytes: int | None
    up_s: float
    host: str | None = None
    attached: AttachedDriver | None = None


DEATH_OF_MEMORY = re.compile(r"OutOfMemory|OOMKilled|\bexited with (?:exit )?code:? (?:52|137)\b|(?i:memory limit)")
"""What cluster managers say of an executor that ran out of memory: 52 is Spark's own exit, 137 the kernel's kill.
Kubernetes says "exit code 137(SIGKILL, possible container OOM)"."""
RECLAIMED = re.compile(
    r"(?i)deleted by a user or the framework|missed the deletion event|exited with (?:exit )?code:? 143\b|"
    r"brief reason: (?:preempting|shutdown|terminated|nodelost)\b|the node (?:was low on|had condition)|"
    r"was preempted|on a \*?lost\*? node"
)
"""What cluster managers say of an executor that they took away for a reason outside it: a person or a node autoscaler
deleted its pod, another pod preempted or evicted it, its node went. 143 is the answer to TERM."""
LET_GO = re.compile(r"(?i)decommission|killed by driver|worker (lost|shutting down)")
"""What Spark says of an executor that its driver released, or whose machine was lost."""


@dataclass(frozen=True)
class ExecutorRun:
    """One executor of a driver, from its registration to its end (a row of ``telemetry/executors``).

    Attributes:
        pipeline: Name of the pipeline.
        app: Name of the app.
        generation: Start number of the driver.
        executor: Spark's id.
        host: Its host.
        cores: Its cores.
        memory_mb: Its heap, MiB.
        started: When it registered (UTC).
        ended: When it was lost or released (UTC); None while it runs.
        reason: The cluster manager's message about its end; None while it runs.
        executor_number: Its number among the app's executors, used by placements; None if it was not noted.
        peak_memory_mb: Most memory that its processes had resident, heap included, MiB; None until it was measured.
        measured: When that was measured (UTC).
        lead_s: Time from its request until it registered, seconds; None if it is not known.
    """

    pipeline: str
    app: str
    generation: int
    executor: str
    host: str
    cores: int
    memory_mb: int
    started: datetime
    ended: datetime | None = None
    reason: str | None = None
    executor_number: int | None = None
    peak_memory_mb: int | None = None
    measured: datetime | None = None
    lead_s: float | None = None

    @property
    def died_of_memory(self) -> bool:
        """Whether it ran out of memory."""
        return self.reason is not None and not self.reclaimed and DEATH_OF_MEMORY.search(self.reason) is not None

    @property
    def reclaimed(self) -> bool:
        """Whether its cluster took it away, whatever it did."""
        return self.reason is not None and RECLAIMED.search(self.reason) is not None

    @property
    def died(self) -> bool:
        """Whether it ended by itself, neither on request nor because its cluster took it away."""
        return self.reason is not None and not self.reclaimed and LET_GO.search(self.reason) is None


@dataclass(frozen=True)
class PartitionRun:
    """One state partition of a stage in one micro-batch (a row of ``telemetry/partitions``).

    All stateful operators of a stage run in the same tasks, so their partitions of one number move together and are
    measured as one.

    Attributes:
        pipeline: Name of the pipeline.
        app: Name of the app.
        generation: Start number of the driver, >= 1.
        version: The Deployment version that the driver had applied, >= 1.
        query: Name or id of the streaming query.
        operator: Lowest id of the stage's stateful operators; with the partition it identifies the row in the batch.
        operators: Ids of all of them, ascending.
        partition: Number of the partition, >= 0.
        time: When the batch ended (UTC).
        batch_id: Spark's batch id, >= 0.
        executor: Spark's id of the executor that ran it.
        rows_in: Rows that its task read.
        run_s: Time that its task ran, in seconds; Python workers and waits included.
        local_bytes: Bytes that it read from its own executor.
        remote_bytes: Bytes that it read from others.
        state_bytes: Bytes that an executor would load if the partition moved there: each operator's newest snapshot in
            the checkpoint and the changes since; null in samples that did not measure it.
        executor_number: The executor's number among the app's, used by placements; null if unknown.
        host: Host of the executor.
        memory_bytes: Its share, by ``state_bytes``, of the memory of the query's state; null if either was not
            measured.
    """

    pipeline: str
    app: str
    generation: int
    version: int
    query: str
    operator: int
    operators: tuple[int, ...]
    partition: int
    time: datetime
    batch_id: int
    executor: str
    rows_in: int
    run_s: float
    local_bytes: int
    remote_bytes: int
    state_bytes: int | None = None
    executor_number: int | None = None
    host: str | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class PartitionFlow:
    """Bytes from one state partition to one of the next stage in one micro-batch (a row of ``telemetry/flows``).

    Attributes:
        pipeline: Name of the pipeline.
        app: Name of the app.
        generation: Start number of the driver, >= 1.
        query: Name or id of the streaming query.
        from_operator: Lowest id of the stateful operators of the stage that emits, as ``PartitionRun.operator``.
        from_partition: Its partition, >= 0.
        to_operator: Lowest id of the stateful operators of the stage that receives.
        to_partition: Its partition, >= 0.
        time: When the batch ended (UTC).
        batch_id: Spark's batch id, >= 0.
        bytes: Bytes passed on, as written for the shuffle; accurate to 10 %, > 0.
    """

    pipeline: str
    app: str
    generation: int
    query: str
    from_operator: int
    from_partition: int
    to_operator: int
    to_partition: int
    time: datetime
    batch_id: int
    bytes: int
