"""Identifies a process: its pid may belong to another process later, and clocks are set while processes run."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

CLOCK_TOLERANCE_S = 1.0
"""Maximum drift of the start time of a process whose ticks were not recorded."""
START_TICKS_FIELD = 19
"""Index of ``starttime`` (field 22, proc_pid_stat(5)) after the command's closing parenthesis, field 2."""


@dataclass(frozen=True)
class ProcessId:
    """A process that cannot be confused with a later one of the same pid.

    The kernel counts a process's start in ticks since boot. With the boot's id, they identify the process even if the
    wall clock is set. The start time follows that clock, so it is used only for processes that were recorded without
    ticks (by releases up to 0.1).

    Attributes:
        pid: Process id.
        started: Start, seconds since 1970.
        boot_id: Id of the boot it runs in; None if it was not recorded.
        start_ticks: Start in clock ticks since that boot; None if it was not recorded.
    """

    pid: int
    started: float
    boot_id: str | None = None
    start_ticks: int | None = None

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """Identify a running process.

        Raises:
            psutil.NoSuchProcess: If it has ended.
        """
        started = psutil.Process(pid).create_time()
        return cls(pid, started, boot_id(), start_ticks(pid))

    def process(self) -> psutil.Process | None:
        """Return this process; None once it has ended or is a zombie."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.pid)
            if self._is(process) and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None

    def alive(self) -> bool:
        """Return whether this process still runs."""
        return self.process() is not None

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal to this process; return False if it is gone."""
        if self.process() is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
            return True
        return False

    def age_s(self) -> float:
        """Return how long ago it started, seconds; 0 if its start was not recorded."""
        if self.start_ticks is None:
            return 0.0
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self.start_ticks / os.sysconf("SC_CLK_TCK")

    def precedes(self, pid: int) -> bool:
        """Return whether a running process started no earlier than this one.

        Raises:
            psutil.NoSuchProcess: If it has ended.
        """
        if self.boot_id is None or self.start_ticks is None:
            return bool(psutil.Process(pid).create_time() >= self.started - CLOCK_TOLERANCE_S)
        return self.boot_id == boot_id() and start_ticks(pid) >= self.start_ticks

    def _is(self, process: psutil.Process) -> bool:
        if self.boot_id is None or self.start_ticks is None:
            return abs(process.create_time() - self.started) <= CLOCK_TOLERANCE_S
        return self.boot_id == boot_id() and self.start_ticks == start_ticks(self.pid)


def this_process() -> ProcessId:
    """Return the calling process."""
    return ProcessId.of(os.getpid())


@cache
def boot_id() -> str:
    """Return the id of the current boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def start_ticks(pid: int) -> int:
    """Return a process's start in clock ticks since boot.

    Raises:
        psutil.NoSuchProcess: If it has ended.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(pid) from None
    # the command itself may contain spaces and parentheses
    return int(stat.rpartition(b")")[2].split()[START_TICKS_FIELD])
