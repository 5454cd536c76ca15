"""Measures the state partitions of running queries: which executor ran each, and what moving it would cost.

Some batches are sampled, in a background thread: neither the query nor the listener waits.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyspark

from millrace.model.telemetry import PartitionFlow, PartitionRun
from millrace.runtime.spark_versions import NO_MAP_OUTPUT, numbers
from millrace.runtime.telemetry import batches
from millrace.runtime.telemetry.batches import AppIdentity
from millrace.runtime.telemetry.execution import ExecutedPlan, Stage
from millrace.runtime.telemetry.fragments import StatefulStage, stateful_stages
from millrace.runtime.telemetry.map_output import MapOutput
from millrace.runtime.telemetry.stage_tasks import Task, TaskReader
from millrace.runtime.telemetry.state_size import HadoopStorage, LocalStorage, StateSizes, is_local
from millrace.runtime.telemetry.writer import Writer

LOG = logging.getLogger(__name__)

SHORTEST_INTERVAL_S = 5.0
"""Minimum time between two sampled batches of a query. Measuring may cost 2 % of one CPU, which is 0.1 s per sample.
64 partitions of two operators take 0.03 s with the commit; once per minute, with state sizes and flows, 0.1 s."""

RARE_INTERVAL_S = 60.0
"""Minimum time between two measurements of a query's state sizes and flows. State grows slowly, and measuring its size
lists each partition's folders. Flows are one row per pair of partitions."""

MOST_WAITING = 16
"""Maximum number of batches waiting to be sampled; further ones are not sampled."""

CLOSE_S = 1.0


@dataclass(frozen=True)
class SampledBatch:
    """A batch to be sampled.

    Attributes:
        identity: The app.
        query: Name or id of the query.
        time: When the batch ended (UTC).
        batch_id: Spark's batch id.
        stages: Its stages that keep state, sources first.
        state_root: The checkpoint's ``state`` folder.
        memory_bytes: Memory of the query's state.
    """

    identity: AppIdentity
    query: str
    time: datetime
    batch_id: int
    stages: tuple[StatefulStage, ...]
    state_root: str
    memory_bytes: int = 0


@dataclass
class _Run:
    """When a query run was last sampled, and what is kept for its next sample."""

    sampled_s: float = float("-inf")
    rarely_s: float = float("-inf")
    sizes: StateSizes | None = None


class PartitionSampler:
    """Samples batches of the session's queries.

    Args:
        spark: The session.
        writer: Takes the rows.
        interval_s: Commit interval, seconds. A query is not sampled more often.
        clock: A monotonic clock, seconds.
    """

    def __init__(
        self, spark: Any, writer: Writer, interval_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._context, self._writer, self._clock = spark.sparkContext, writer, clock
        self._interval_s = max(SHORTEST_INTERVAL_S, interval_s)
        self._numbers: dict[str, int] = {}
        self._runs: dict[str, _Run] = {}
        self._tasks: TaskReader | None = None
        self._outputs: MapOutput | None = None
        self._waiting: queue.Queue[tuple[_Run, SampledBatch] | threading.Event | None] = queue.Queue(MOST_WAITING)
        self._failed = False
        self._thread = threading.Thread(target=self._work, name="millrace-partitions", daemon=True)
        self._thread.start()

    def offer(
        self,
        query: Any,
        facts: Mapping[str, Any],
        identity: AppIdentity,
        plan: ExecutedPlan | None,
        stages: Sequence[Stage],
    ) -> None:
        """Queue a batch for sampling if the query's last sample is old enough; returns at once.

        A batch without rows, for example one that only moves a watermark, shows no load and is not sampled.

        Args:
            query: The JVM's ``StreamExecution``.
            facts: The batch's progress event.
            identity: The app when it ran the batch.
            plan: The executed plan; None if it is gone.
            stages: Completed stages of the batch.
        """
        run, now = self._runs.setdefault(str(facts["runId"]), _Run()), self._clock()
        if plan is None or not facts.get("numInputRows") or now - run.sampled_s < self._interval_s:
            return
        measured = stateful_stages(plan, stages)
        if not measured:
            return
        batch = SampledBatch(
            identity,
            batches.query_name(facts),
            batches.ended(facts),
            int(facts["batchId"]),
            measured,
            f"{query.resolvedCheckpointRoot()}/state",
            sum(int(operator.get("memoryUsedBytes", 0)) for operator in facts["stateOperators"]),
        )
        with suppress(queue.Full):
            self._waiting.put_nowait((run, batch))
            run.sampled_s = now

    def number(self, executor: str, number: int) -> None:
        """Record an executor's number among the app's."""
        self._numbers[executor] = number

    def forget(self, run_id: str) -> None:
        """Forget a query run that ended."""
        self._runs.pop(run_id, None)

    def flush(self, timeout_s: float) -> None:
        """Wait until the writer has all batches that were offered before this call, or the timeout is over."""
        if not self._thread.is_alive():
            return
        done = threading.Event()
        try:
            self._waiting.put(done, timeout=timeout_s)
        except queue.Full:
            return
        done.wait(timeout_s)

    def close(self) -> None:
        """End the thread once it has sampled what waits, or abandon it if that takes long; safe to repeat."""
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(CLOSE_S)

    def _work(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            if isinstance(waiting, threading.Event):
                waiting.set()
                continue
            try:
                self._sample(*waiting)
            except Exception as error:
                if not self._failed:  # said once; the next batch is tried all the same
                    LOG.warning("State partitions are not measured; the stream continues: %s", error)
                self._failed = True

    def _sample(self, run: _Run, batch: SampledBatch) -> None:
        self._tasks = self._tasks or TaskReader(self._context)
        ran = [(one, one.stage) for one in batch.stages]
        read = [(one, self._tasks.read(stage.id, stage.attempt, stage.tasks)) for one, stage in ran]
        rarely = self._clock() - run.rarely_s >= RARE_INTERVAL_S
        if rarely:
            run.rarely_s = self._clock()
        sizes = self._state_bytes(run, batch) if rarely else {}
        rows = [row for stage, tasks in read for row in partition_runs(batch, stage, tasks, sizes, self._numbers)]
        self._writer.add_partitions(tuple(with_memory(rows, batch.memory_bytes)))
        if rarely:
            self._writer.add_flows(tuple(self._flows(batch)))

    def _state_bytes(self, run: _Run, batch: SampledBatch) -> dict[tuple[int, int], int]:
        """Return the bytes of each operator's partitions; empty if the checkpoint cannot be read."""
        root = batch.state_root
        run.sizes = run.sizes or StateSizes(root, LocalStorage() if is_local(root) else HadoopStorage(self._context))
        try:
            return {
                (operator, partition): run.sizes.loaded(operator, partition)
                for stage in batch.stages
                for operator in stage.operators
                for partition in range(stage.stage.tasks)
            }
        except Exception as error:  # what tasks did is known anyway
            LOG.debug("The state of %s cannot be measured: %s", batch.query, error)
            return {}

    def _flows(self, batch: SampledBatch) -> Iterator[PartitionFlow]:
        """Yield what each partition passed to each of the next stage, if that stage keeps state too."""
        if numbers(pyspark.__version__) >= NO_MAP_OUTPUT:
            return
        self._outputs = self._outputs or MapOutput(self._context)
        for sender in batch.stages:
            for receiver in batch.stages:
                if sender.writes is None or sender.writes not in receiver.reads:
                    continue
                yield from partition_flows(batch, sender, receiver, self._outputs.sizes(sender.writes) or {})


def partition_runs(
    batch: SampledBatch,
    stage: StatefulStage,
    tasks: Sequence[Task],
    state_bytes: Mapping[tuple[int, int], int],
    numbers: Mapping[str, int],
) -> Iterator[PartitionRun]:
    """Yield a stage's partitions; none if a task is unknown.

    Args:
        batch: The batch.
        stage: The stage.
        tasks: Its successful tasks.
        state_bytes: Bytes of state by operator and partition; empty if they were not measured.
        numbers: Known numbers of the app's executors, by executor id.
    """
    if len(tasks) != stage.stage.tasks:
        return
    identity = batch.identity
    for task in tasks:
        of_operators = [state_bytes.get((operator, task.partition)) for operator in stage.operators]
        known = [size for size in of_operators if size is not None]
        yield PartitionRun(
            pipeline=identity.pipeline,
            app=identity.app,
            generation=identity.generation,
            version=identity.version,
            query=batch.query,
            operator=stage.operators[0],
            operators=stage.operators,
            partition=task.partition,
            time=batch.time,
            batch_id=batch.batch_id,
            executor=task.executor,
            rows_in=task.rows_in,
            run_s=task.run_s,
            local_bytes=task.local_bytes,
            remote_bytes=task.remote_bytes,
            state_bytes=sum(known) if len(known) == len(of_operators) else None,
            executor_number=numbers.get(task.executor),
            host=task.host,
        )


def with_memory(runs: Sequence[PartitionRun], memory_bytes: int) -> Iterator[PartitionRun]:
    """Yield a query's partitions with their shares of its state's memory, which Spark does not report per partition.

    Args:
        runs: All partitions of the query.
        memory_bytes: Memory of their state.
    """
    sizes = [run.state_bytes for run in runs]
    whole = sum(size or 0 for size in sizes)
    if None in sizes or not whole:
        yield from runs
        return
    for run in runs:
        yield replace(run, memory_bytes=round(memory_bytes * (run.state_bytes or 0) / whole))


def partition_flows(
    batch: SampledBatch, sender: StatefulStage, receiver: StatefulStage, sizes: Mapping[tuple[int, int], int]
) -> Iterator[PartitionFlow]:
    """Yield what each partition of a stage passed to each of the next.

    Args:
        batch: The batch.
        sender: The stage that emits.
        receiver: The stage that receives.
        sizes: Bytes per pair of partitions, > 0.
    """
    identity = batch.identity
    for (emitted_by, received_by), size in sizes.items():
        yield PartitionFlow(
            pipeline=identity.pipeline,
            app=identity.app,
            generation=identity.generation,
            query=batch.query,
            from_operator=sender.operators[0],
            from_partition=emitted_by,
            to_operator=receiver.operators[0],
            to_partition=received_by,
            time=batch.time,
            batch_id=batch.batch_id,
            bytes=size,
        )
