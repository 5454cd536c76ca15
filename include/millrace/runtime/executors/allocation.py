"""The executors of the running app: asked for, counted, and let go, through Spark's own scheduler back end.

Spark's allocation manager is stopped once it has asked for the first executors: it removes those that are idle, and a
stream's are idle between two batches. All of this is internal to Spark and held by tests for the pinned version.
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
    """A registered executor: Spark's id, in the order of registration, and where it runs."""

    id: str
    host: str


@dataclass(frozen=True)
class Lifetime:
    """When an executor registered and ended (UTC), with how many cores, what its end is put down to, and its memory.

    ``peak_memory_mb`` is the most that its processes had resident so far, MiB; the heap and the JVM's own where the
    system does not tell that; None until it was measured.
    """

    executor: Executor
    cores: int
    started: datetime
    ended: datetime | None
    reason: str | None
    peak_memory_mb: int | None = None


class Allocation:
    """The app's executors.

    Args:
        spark: The session, on a cluster and with dynamic allocation.
    """

    def __init__(self, spark: Any) -> None:
        self._context, self._jvm = spark.sparkContext._jsc.sc(), spark.sparkContext._jvm
        self._backend = self._context.schedulerBackend()
        self._hosts: dict[str, str] = {}

    def take_over(self) -> None:
        """End Spark's own allocation; the executors that it asked for stay wanted."""
        manager = self._context.executorAllocationManager()
        if manager.isDefined():
            manager.get().stop()

    def request(self, total: int) -> bool:
        """Tell the cluster manager how many executors the app wants; False if it could not be told."""
        return bool(self._context.requestTotalExecutors(total, 0, self._jvm.scala.collection.immutable.HashMap()))

    def registered(self) -> tuple[Executor, ...]:
        """Return the executors that can run tasks, oldest first; those that are being let go are still among them."""
        ids = sorted(filter(None, self._backend.getExecutorIds().mkString(",").split(",")), key=int)
        if not self._hosts.keys() >= set(ids):
            infos = self._context.statusStore().executorList(True)
            for info in (infos.apply(i) for i in range(infos.size())):
                self._hosts[info.id()] = info.hostPort().rsplit(":", 1)[0]
        return tuple(Executor(id, self._hosts[id]) for id in ids if id in self._hosts)

    def lifetimes(self) -> tuple[Lifetime, ...]:
        """Return the executors that the app has and had, as far as Spark remembers them, oldest first."""
        infos = self._context.statusStore().executorList(False)
        every = [infos.apply(i) for i in range(infos.size())]
        return tuple(map(_lifetime, sorted((i for i in every if i.id().isdigit()), key=lambda i: int(i.id()))))

    def let_go(self, executor: Executor) -> None:
        """Have an executor finish its tasks, give away its blocks and end; the app wants one less from now on."""
        info = self._jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
            "no longer needed", self._jvm.scala.Option.empty()
        )
        self._backend.decommissionExecutor(executor.id, info, True, False)

    def kill(self, executor: Executor) -> None:
        """End an executor at once, with the tasks that it runs and the shuffle output that it holds."""
        ids = self._jvm.PythonUtils.toSeq([executor.id])
        self._backend.killExecutors(ids, False, False, True)


def _lifetime(info: Any) -> Lifetime:
    executor = Executor(info.id(), info.hostPort().rsplit(":", 1)[0])
    ended, reason = info.removeTime(), info.removeReason()
    return Lifetime(
        executor,
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
