"""Processor time of the stack's services, including processes that end between two samples.

The kernel adds the time of an ended process to its parent's when the parent collects it. So the sum over a service's
living processes, with what they have collected, misses only processes that no parent collects.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from benchmarks.background import in_background

PROC = Path("/proc")
SAMPLE_S = 2.0


@dataclass(frozen=True)
class ProcessTime:
    """A process's times, from ``/proc/PID/stat``.

    Attributes:
        pid: Its id.
        parent: Its parent's id.
        session: Id of its session's leader.
        own_s: Processor time that it used itself, seconds.
        collected_s: Processor time of its ended children that it has collected, seconds.
    """

    pid: int
    parent: int
    session: int
    own_s: float
    collected_s: float


def parse_stat(text: str, ticks_per_s: int) -> ProcessTime:
    """Return a process's times from a line of ``/proc/PID/stat``; its name may contain spaces and parentheses."""
    words = text.rpartition(")")[2].split()
    user, system, children_user, children_system = (int(word) / ticks_per_s for word in words[11:15])
    return ProcessTime(
        int(text.split(maxsplit=1)[0]), int(words[1]), int(words[3]), user + system, children_user + children_system
    )


def read_processes() -> list[ProcessTime]:
    """Return the times of all processes of this machine."""
    ticks_per_s, found = os.sysconf("SC_CLK_TCK"), []
    for folder in PROC.glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            found.append(parse_stat((folder / "stat").read_text(errors="replace"), ticks_per_s))
    return found


def total_by_service(
    processes: Iterable[ProcessTime], leaders: Mapping[int, str], parent_of_all: int | None = None
) -> dict[str, float]:
    """Return the processor time of each service so far, seconds.

    A process belongs to the service of its nearest ancestor that leads one, or else to the leader of its session.

    Args:
        processes: All processes of the machine.
        leaders: Names of services by the id of their first process.
        parent_of_all: The process that starts the services. Services that have ended do not count as its own time.
    """
    every = {process.pid: process for process in processes}
    totals = {name: 0.0 for pid, name in leaders.items() if pid in every}
    for process in every.values():
        leader = next((pid for pid in _ancestry(process.pid, every) if pid in leaders), process.session)
        name = leaders.get(leader)
        if name in totals:
            totals[name] += process.own_s + (0.0 if process.pid == parent_of_all else process.collected_s)
    return totals


def _ancestry(pid: int, every: Mapping[int, ProcessTime]) -> Iterator[int]:
    while pid in every:
        yield pid
        pid = every[pid].parent


@dataclass
class Meter:
    """Adds up the processor time of services between samples.

    Attributes:
        sample: Returns each service's processor time so far, seconds.
        used_s: Processor time since the first sample, seconds, by service.
    """

    sample: Callable[[], Mapping[str, float]]
    used_s: dict[str, float] = field(default_factory=dict)
    _last: dict[str, float] = field(default_factory=dict)

    def advance(self) -> None:
        """Take a sample. A service that was not there before starts with it; time that disappears is ignored."""
        for name, total_s in self.sample().items():
            gained_s = total_s - self._last.get(name, total_s)
            self.used_s[name] = self.used_s.get(name, 0.0) + max(0.0, gained_s)
            self._last[name] = total_s

    @contextmanager
    def running(self) -> Iterator[None]:
        """Sample every two seconds while the block runs."""

        def run(ended: Event) -> None:
            while not ended.wait(SAMPLE_S):
                self.advance()

        self.advance()
        try:
            with in_background(run, "processor-time"):
                yield
        finally:
            self.advance()
