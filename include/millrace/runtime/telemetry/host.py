"""CPU time of the host, split into that of the driver with its executors and that of everything else."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import psutil

HISTORY = 900
"""Samples kept, one per second. For a longer batch, the share covers only the known part."""
REFRESH_S = 5.0
"""Interval at which the process table is searched for new members of the tree, seconds."""
JVM = "java"


@dataclass(frozen=True)
class _Sample:
    time: float
    host_s: float
    own_s: float


class HostCpu:
    """Samples CPU time and interpolates between samples.

    Args:
        root: Pid at the top of the driver's process tree; by default this process, or the spark-submit JVM that
            started it.
        application: Spark's application id. Executors of the application on this host count as the driver's own.
    """

    def __init__(self, root: int | None = None, application: str | None = None) -> None:
        self._application = application
        self._root = psutil.Process(_root() if root is None else root)
        self._members: dict[int, psutil.Process] = {}
        self._spent: dict[int, float] = {}
        self._searched = float("-inf")
        self._own_s = 0.0
        self._samples: deque[_Sample] = deque(maxlen=HISTORY)
        self._mutex = threading.Lock()
        self.sample()

    @property
    def up_s(self) -> float:
        """Seconds since the driver started."""
        return max(0.0, time.time() - float(self._root.create_time()))

    @property
    def own_s(self) -> float:
        """CPU seconds that the driver's tree used from the first to the last sample."""
        return self._own_s

    def sample(self, newer_than_s: float = 0.0) -> None:
        """Take a sample unless the last one is less than ``newer_than_s`` seconds old."""
        with self._mutex:
            now = time.time()
            if self._samples and now < self._samples[-1].time:
                self._samples.clear()  # the clock was set back
            if self._samples and now - self._samples[-1].time < newer_than_s:
                return
            self._add_own()
            self._samples.append(_Sample(now, _busy_s(), self._own_s))

    def other_ratio(self, start: float, end: float) -> float | None:
        """Return the share of all CPUs that others used from ``start`` to ``end`` (Unix time), 0..1."""
        with self._mutex:
            first, last = self._at(start), self._at(end)
        if first is None or last is None or last.time <= first.time:
            return None
        host_s, own_s = last.host_s - first.host_s, last.own_s - first.own_s
        whole_s = (last.time - first.time) * (psutil.cpu_count() or 1)
        return min(1.0, max(0.0, (host_s - own_s) / whole_s))

    def own_ratio(self, since: float) -> float | None:
        """Return the CPU seconds per second that the driver's tree has used since a time (Unix time)."""
        with self._mutex:
            first, last = self._at(since), self._samples[-1]
        if first is None or last.time <= first.time:
            return None
        return (last.own_s - first.own_s) / (last.time - first.time)

    def rss_bytes(self) -> int:
        """Return the resident memory of the tree, bytes."""
        total = 0
        for member in list(self._members.values()):
            try:
                total += int(member.memory_info().rss)
            except psutil.Error:
                continue
        return total

    def _add_own(self) -> None:
        if time.monotonic() - self._searched >= REFRESH_S:
            self._search()
        for pid, member in list(self._members.items()):
            try:
                times = member.cpu_times()
            except psutil.Error:
                del self._members[pid]
                self._spent.pop(pid, None)
                continue
            spent = float(times.user + times.system)
            self._own_s += max(0.0, spent - self._spent.get(pid, 0.0))
            self._spent[pid] = spent

    def _search(self) -> None:
        first = not self._members
        self._searched = time.monotonic()
        try:
            roots = [self._root, *_executors(self._application)]
            tree = [member for root in roots for member in (root, *root.children(recursive=True))]
        except psutil.Error:
            return
        for member in tree:
            if member.pid not in self._members:
                self._members[member.pid] = member
                if first:  # CPU time before the first sample belongs to no batch
                    self._spent[member.pid] = _spent_s(member)

    def _at(self, time_s: float) -> _Sample | None:
        """Return the sample at a time, interpolated; outside the sampled time, the nearest one."""
        if not self._samples:
            return None
        later = None
        for sample in reversed(self._samples):
            if sample.time <= time_s:
                return sample if later is None else _between(sample, later, time_s)
            later = sample
        return self._samples[0]


def _executors(application: str | None) -> Iterator[psutil.Process]:
    """Yield the JVMs of an app's executors on this host."""
    for process in psutil.process_iter() if application else ():
        with suppress(psutil.Error):
            if JVM in process.name() and application in process.cmdline():
                yield process


def _between(a: _Sample, b: _Sample, time_s: float) -> _Sample:
    share = (time_s - a.time) / (b.time - a.time)
    return _Sample(time_s, a.host_s + share * (b.host_s - a.host_s), a.own_s + share * (b.own_s - a.own_s))


def _spent_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def _busy_s() -> float:
    times = psutil.cpu_times()._asdict()
    # guest time is part of user time; waiting for a disk leaves the CPU free
    return float(sum(s for name, s in times.items() if name not in ("idle", "iowait", "guest", "guest_nice")))


def _root() -> int:
    """Return the pid of the spark-submit JVM that started this process, else of this process."""
    try:
        parent = psutil.Process(os.getppid())
        return parent.pid if JVM in parent.name() else os.getpid()
    except psutil.Error:
        return os.getpid()
