"""The thread that commits telemetry to the lake, so that no query ever waits for a disk."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from millrace.lake.driver_hosts import this_host
from millrace.lake.fenced_table import Fenced, FencedTable
from millrace.lake.row_codec import (
    app_row,
    batch_row,
    executor_row,
    key_sample_row,
    partition_flow_row,
    partition_run_row,
)
from millrace.lake.store import Lake
from millrace.model.attached_driver import AttachedDriver
from millrace.model.errors import Conflict, MillraceError
from millrace.model.key_map import KeySample
from millrace.model.telemetry import AppMetrics, BatchMetrics, ExecutorRun, PartitionFlow, PartitionRun
from millrace.run_folder import generation
from millrace.runtime.telemetry.batches import AppIdentity
from millrace.runtime.telemetry.host import HostCpu

LOG = logging.getLogger(__name__)
T = TypeVar("T")
BUFFER_BATCHES = 10_000
"""Batches kept while the lake cannot be written; beyond that, the oldest are dropped."""
BUFFER_SAMPLES = 100
"""Samples of state partitions kept while the lake cannot be written."""
TIME_BITS = 42
"""Bits of a time in ms since 1970, up to the year 2109."""
SHORTEST_INTERVAL_S = 5.0
TICK_S = 1.0


@dataclass(frozen=True)
class Entry:
    """A row of ``telemetry/batches``, and how a repeat of it is recognised.

    Attributes:
        metrics: The row.
        series: Id of the query's checkpoint, as batch ids start at 0 with a new one. Markers have their own series.
        number: Increases within the series: the batch id, or :meth:`Writer.number` of a marker.
    """

    metrics: BatchMetrics
    series: str
    number: int


class Writer:
    """Buffers rows and commits all that are there, one commit per interval.

    Attributes:
        tick: Called once per second; what it raises is ignored.
        describe: Returns what a driver says of itself if Millrace did not start it, else None.

    Args:
        lake: The lake.
        identity: The app that writes.
        period_s: Interval between two evaluations, seconds.
        host: CPU time of the host.
    """

    def __init__(self, lake: Lake, identity: AppIdentity, period_s: float, host: HostCpu) -> None:
        self._lake, self._identity, self._host = lake, identity, host
        self.tick: Callable[[], None] = lambda: None
        self.describe: Callable[[], AttachedDriver | None] = lambda: None
        self.interval_s = max(SHORTEST_INTERVAL_S, period_s / 3)
        prefix = f"{identity.pipeline}/{identity.app}"
        fence = generation.fence(identity.pipeline, identity.app)
        self._table = FencedTable(lake, "telemetry/batches", fence, identity.generation)
        # a waiting successor reports at the same time as its predecessor
        self._apps_id = f"{prefix}/apps/{identity.generation}"
        self._buffer: deque[Entry] = deque(maxlen=BUFFER_BATCHES)
        self._executors: deque[ExecutorRun] = deque(maxlen=BUFFER_BATCHES)
        self._partitions: deque[tuple[PartitionRun, ...]] = deque(maxlen=BUFFER_SAMPLES)
        self._flows: deque[tuple[PartitionFlow, ...]] = deque(maxlen=BUFFER_SAMPLES)
        self._keys: deque[tuple[KeySample, ...]] = deque(maxlen=BUFFER_SAMPLES)
        self._mutex = threading.Lock()  # the buffer and the number
        self._commit = threading.Lock()  # one commit at a time
        self._stop = threading.Event()
        self._committed_at = float("-inf")
        self._sampled = time.time()
        self._number = 0
        self._failing = False
        self._fenced = False
        self._thread = threading.Thread(target=self._run, name="millrace-telemetry", daemon=True)
        self._thread.start()

    def add(self, entry: Entry) -> None:
        """Take a row; returns at once."""
        with self._mutex:
            self._buffer.append(entry)

    def number(self, now: datetime) -> int:
        """Return a number above all that this driver and earlier generations have used, even if a clock was set back.

        Args:
            now: The present (UTC).
        """
        with self._mutex:
            by_clock = (self._identity.generation << TIME_BITS) + int(now.timestamp() * 1000)
            self._number = max(self._number + 1, by_clock)
            return self._number

    def add_executor(self, run: ExecutorRun) -> None:
        """Take an executor that registered or ended; returns at once."""
        self._executors.append(run)

    def add_partitions(self, runs: tuple[PartitionRun, ...]) -> None:
        """Take the state partitions of a sampled batch; returns at once."""
        if runs:
            self._partitions.append(runs)

    def add_flows(self, flows: tuple[PartitionFlow, ...]) -> None:
        """Take what passed between the state partitions of a sampled batch; returns at once."""
        if flows:
            self._flows.append(flows)

    def add_keys(self, sample: KeySample) -> None:
        """Take a sample of keys; returns at once."""
        self._keys.append((sample,))

    @property
    def is_fenced(self) -> bool:
        """Whether a later driver has taken over: this one must stop acting."""
        return self._fenced

    def hurry(self) -> None:
        """Let the thread commit within a second; returns at once."""
        self._committed_at = float("-inf")

    def flush(self) -> bool:
        """Commit what is buffered. False if the lake could not be written, so the rows wait, or the driver is stale."""
        with self._commit:
            self._committed_at = time.monotonic()
            if self._fenced:
                return False
            try:
                # first: an evaluation that a batch starts must find the samples up to its end
                self._write_samples("telemetry/keys", self._keys, key_sample_row)
                self._write_batches()
                self._write_app()
                self._write_executors()
                self._write_samples("telemetry/partitions", self._partitions, partition_run_row)
                self._write_samples("telemetry/flows", self._flows, partition_flow_row)
            except Fenced as outcome:
                self._fenced = True
                LOG.warning("Discarding telemetry of an outdated driver: %s", outcome)
                return False
            except Exception as error:
                if not self._failing:  # said once, tried again at every interval
                    LOG.warning("Telemetry cannot be written yet; the stream continues: %s", _sentence(error))
                self._failing = True
                return False
            if self._failing:
                LOG.warning("Telemetry is being written again.")
            self._failing = False
            return True

    def close(self, timeout_s: float = 10.0) -> None:
        """Flush and end the thread; safe to repeat."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join(timeout_s)
        if not self._thread.is_alive():  # else it hangs on the lake, and so would this call
            self.flush()

    def _run(self) -> None:
        while not self._stop.wait(TICK_S):
            self._attempt(lambda: self._host.sample(TICK_S / 2))
            self._attempt(self.tick)
            if time.monotonic() - self._committed_at >= self.interval_s:
                self.flush()

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            LOG.debug("No sample: %s", error)

    def _write_batches(self) -> None:
        with self._mutex:
            entries = list(self._buffer)
        if not entries:
            return
        prefix = f"{self._identity.pipeline}/{self._identity.app}"
        ids = {e.series: f"{prefix}/{e.series}/{self._identity.epoch}" for e in entries}
        try:
            self._write_new(entries, ids)
        except Conflict:  # our own predecessor: try again, the fence decides
            self._write_new(entries, ids)
        with self._mutex:
            written = set(map(id, entries))
            kept = [e for e in self._buffer if id(e) not in written]
            self._buffer.clear()
            self._buffer.extend(kept)

    def _write_new(self, entries: list[Entry], ids: dict[str, str]) -> None:
        reached = dict(self._table.committed(list(ids.values())))
        rows = []
        for entry in entries:
            if entry.number > reached.get(ids[entry.series], -1):
                reached[ids[entry.series]] = entry.number
                rows.append(batch_row(entry.metrics))
        if rows:
            self._table.append(rows, {i: reached[i] for i in ids.values() if i in reached})

    def _write_executors(self) -> None:
        runs = list(self._executors)
        if runs:
            self._lake.append("telemetry/executors", [executor_row(run) for run in runs])
            for _ in runs:
                self._executors.popleft()

    def _write_samples(self, table: str, waiting: deque[tuple[T, ...]], row: Callable[[T], Mapping[str, Any]]) -> None:
        samples = list(waiting)
        if samples:
            self._lake.append(table, [row(of_one) for sample in samples for of_one in sample])
            for sample in samples:
                if waiting and waiting[0] is sample:  # else newer samples have pushed it out
                    waiting.popleft()

    def _write_app(self) -> None:
        now = datetime.now(UTC)
        since, self._sampled = self._sampled, now.timestamp()
        row = AppMetrics(
            pipeline=self._identity.pipeline,
            app=self._identity.app,
            time=now,
            generation=self._identity.generation,
            cpu_ratio=self._host.own_ratio(since),
            rss_bytes=self._host.rss_bytes(),
            up_s=self._host.up_s,
            host=this_host(),
            attached=self.describe(),
        )
        self._lake.append("telemetry/apps", [app_row(row)], {self._apps_id: self.number(now)})


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, MillraceError) else f"{type(error).__name__}: {error}"
