"""Requests, counts and decommissions the running app's executors through Spark's own scheduler back end.

Spark's allocation manager is stopped once it has requested the first executors. It removes idle executors, and a
stream's executors are idle between two batches. All of this is internal to Spark: covered by tests for the pinned
version.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

RESIDENT = tuple(f"ProcessTree{kind}RSSMemory" for kind in ("JVM", "Python", "Other"))
OF_JVM = ("JVMHeapMemory", "JVMOffHeapMemory")
MIB = 1 << 20


@dataclass(frozen=True)
class Executor:
    """A registered executor: Spark's id, in the order of registration, its host, and its cores, None if unknown.

    Spark 4.2 replaces an executor that ran out of memory on Kubernetes by one that has fewer cores, for one task.
    """

    id: str
    host: str
    cores: int | None = None


@dataclass(frozen=True)
class Lifetime:
    """When an executor registered and ended (UTC), its cores, the reason for its end, and its memory.

    ``peak_memory_mb`` is the highest resident memory of its processes so far, MiB. If the system does not report that,
    it is the JVM's heap and off-heap memory. None until measured. ``lead_s`` is the time from its request until it
    registered, seconds; None if that is not known.
    """

    executor: Executor
    cores: int
    started: datetime
    ended: datetime | None
    reason: str | None
    peak_memory_mb: int | None = None
    lead_s: float | None = None


class Allocation:
    """The app's executors.

    Attributes:
        spark_version: Version of Spark.

    Args:
        spark: The session, on a cluster and with dynamic allocation.
    """

    def __init__(self, spark: Any) -> None:
        self._context, self._jvm = spark.sparkContext._jsc.sc(), spark.sparkContext._jvm
        self._backend = self._context.schedulerBackend()
        self._known: dict[str, Executor] = {}
        self.spark_version = str(spark.sparkContext.version)

    def take_over(self) -> None:
        """Stop Spark's own allocation; the executors that it requested stay requested."""
        manager = self._context.executorAllocationManager()
        if manager.isDefined():
            manager.get().stop()

    def request(self, total: int) -> bool:
        """Request a total number of executors from the cluster manager; False if it did not accept the request."""
        return bool(self._context.requestTotalExecutors(total, 0, self._jvm.scala.collection.immutable.HashMap()))

    def registered(self) -> tuple[Executor, ...]:
        """Return the executors that can run tasks, oldest first, including those being decommissioned."""
        ids = sorted(filter(None, self._backend.getExecutorIds().mkString(",").split(",")), key=int)
        if not self._known.keys() >= set(ids):
            infos = self._context.statusStore().executorList(True)
            for info in (infos.apply(i) for i in range(infos.size())):
                self._known[info.id()] = _executor(info)
        return tuple(self._known[id] for id in ids if id in self._known)

    def busy(self) -> set[str]:
        """Return the ids of the executors that run tasks."""
        infos = self._context.statusStore().executorList(True)
        every = [infos.apply(i) for i in range(infos.size())]
        return {info.id() for info in every if info.activeTasks()}

    def lifetimes(self) -> tuple[Lifetime, ...]:
        """Return the app's present and past executors that Spark remembers, oldest first."""
        infos = self._context.statusStore().executorList(False)
        every = [infos.apply(i) for i in range(infos.size())]
        return tuple(map(_lifetime, sorted((i for i in every if i.id().isdigit()), key=lambda i: int(i.id()))))

    def let_go(self, executor: Executor) -> None:
        """Decommission an executor: it finishes its tasks, hands over its blocks and ends. The app wants one fewer."""
        info = self._jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
            "no longer needed", self._jvm.scala.Option.empty()
        )
        self._backend.decommissionExecutor(executor.id, info, True, False)

    def kill(self, executor: Executor) -> None:
        """End an executor at once, with its running tasks and its shuffle output."""
        ids = self._jvm.PythonUtils.toSeq([executor.id])
        self._backend.killExecutors(ids, False, False, True)


def _executor(info: Any) -> Executor:
    return Executor(info.id(), info.hostPort().rsplit(":", 1)[0], int(info.totalCores()))


def _lifetime(info: Any) -> Lifetime:
    ended, reason = info.removeTime(), info.removeReason()
    return Lifetime(
        _executor(info),
        int(info.totalCores()),
        _time(info.addTime()),
        _time(ended.get()) if ended.isDefined() else None,
        str(reason.get()) if reason.isDefined() else None,
        _peak_memory_mb(info.peakMemoryMetrics()),
    )


def _peak_memory_mb(metrics: Any) -> int | None:
    if not metrics.isDefined():
        return None
    peaks = metrics.get()
    resident, own = (sum(int(peaks.getMetricValue(name)) for name in names) for names in (RESIDENT, OF_JVM))
    return (resident or own) // MIB or None


def _time(date: Any) -> datetime:
    return datetime.fromtimestamp(date.getTime() / 1000, UTC)
