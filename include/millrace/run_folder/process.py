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

START_TICKS_FIELD = 19
"""Index of ``starttime`` (field 22, proc_pid_stat(5)) after the command's closing parenthesis, field 2."""


@dataclass(frozen=True)
class ProcessId:
    """A process that cannot be confused with a later one of the same pid.

    The kernel counts a process's start in ticks since boot. With the boot's id, they identify the process even if the
    wall clock, and with it the start time, is set.

    Attributes:
        pid: Process id.
        started: Start, seconds since 1970.
        boot_id: Id of the boot it runs in.
        start_ticks: Start in clock ticks since that boot.
    """

    pid: int
    started: float
    boot_id: str
    start_ticks: int

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
            same = self.boot_id == boot_id() and self.start_ticks == start_ticks(self.pid)
            if same and process.status() != psutil.STATUS_ZOMBIE:
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
        """Return how long ago it started, seconds."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self.start_ticks / os.sysconf("SC_CLK_TCK")

    def precedes(self, pid: int) -> bool:
        """Return whether a running process started no earlier than this one.

        Raises:
            psutil.NoSuchProcess: If it has ended.
        """
        return self.boot_id == boot_id() and start_ticks(pid) >= self.start_ticks


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
