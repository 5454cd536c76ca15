"""Which drivers are alive: told by the process table alone, records may be late or lost."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from include.drivers.arguments import DriverArguments, recognise
from include.drivers.record import DriverRecord

CLOCK_TOLERANCE_S = 1.0
"""A process's start time is derived from the boot time, which a clock correction may shift a little."""


@dataclass(frozen=True)
class ProcessId:
    """A process that cannot be mistaken for a later one of the same pid: pid and start, seconds since 1970."""

    pid: int
    started: float

    def alive(self) -> bool:
        """Say whether this very process still runs."""
        return self._process() is not None

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal to this very process; return False if it has gone."""
        process = self._process()
        if process is None:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
            return True
        return False

    def _process(self) -> psutil.Process | None:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) <= CLOCK_TOLERANCE_S
            if same and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None


@dataclass(frozen=True)
class LiveDriver:
    """One generation of an app with at least one process alive.

    Attributes:
        arguments: What it was told.
        processes: Its processes: spark-submit's (first a shell, then the JVM) and the Python driver.
    """

    arguments: DriverArguments
    processes: tuple[ProcessId, ...]

    @property
    def generation(self) -> int:
        """Its start number."""
        return self.arguments.generation

    def alive(self) -> bool:
        """Say whether any of its processes still runs."""
        return any(p.alive() for p in self.processes)


def find(run_dir: Path, pipeline: str) -> tuple[LiveDriver, ...]:
    """Return a pipeline's live drivers, newest generation first, whoever started them."""
    found: dict[tuple[str, int], list[tuple[DriverArguments, ProcessId]]] = defaultdict(list)
    for arguments, process in _drivers():
        if arguments.pipeline == pipeline and _same(arguments.run_dir, run_dir):
            found[arguments.app, arguments.generation].append((arguments, process))
    drivers = [LiveDriver(group[0][0], tuple(p for _, p in group)) for group in found.values()]
    return tuple(sorted(drivers, key=lambda d: -d.generation))


def python_driver(record: DriverRecord | None) -> ProcessId | None:
    """Return the process that a graceful stop must signal, None before the driver has told its pid."""
    return None if record is None else ProcessId(record.pid, record.process_started)


def this_process() -> ProcessId:
    """Return the calling process."""
    return ProcessId(os.getpid(), psutil.Process().create_time())


def _drivers() -> Iterable[tuple[DriverArguments, ProcessId]]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            arguments = recognise(process.cmdline())
            if arguments is not None:
                yield arguments, ProcessId(process.pid, process.create_time())


def _same(left: Path, right: Path) -> bool:
    return left == right or os.path.realpath(left) == os.path.realpath(right)
