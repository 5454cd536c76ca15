"""Finds live drivers in the process table alone: records may be late or lost."""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from millrace.run_folder.arguments import DriverArguments, recognise
from millrace.run_folder.driver_records import DriverRecord
from millrace.run_folder.process import ProcessId


@dataclass(frozen=True)
class LiveDriver:
    """One generation of an app with at least one process alive.

    Attributes:
        arguments: Its command line.
        processes: Its processes: spark-submit's (first a shell, then the JVM) and the Python driver.
    """

    arguments: DriverArguments
    processes: tuple[ProcessId, ...]

    @property
    def generation(self) -> int:
        """Its start number."""
        return self.arguments.generation

    def alive(self) -> bool:
        """Return whether any of its processes still runs."""
        return any(p.alive() for p in self.processes)

    def still_s(self, record: DriverRecord | None) -> float:
        """Return the seconds since its last progress, or since its start if it has recorded none.

        Args:
            record: Its record; None before the first one.
        """
        if record is None or record.advanced_s is None:
            return max((process.age_s() for process in self.processes), default=0.0)
        return time.monotonic() - record.advanced_s


def find(run_dir: Path, pipeline: str) -> tuple[LiveDriver, ...]:
    """Return a pipeline's live drivers, newest generation first, whoever started them."""
    groups: dict[tuple[str, int], list[tuple[DriverArguments, ProcessId]]] = defaultdict(list)
    for arguments, process in _drivers():
        if arguments.pipeline == pipeline and _same(arguments.run_dir, run_dir):
            groups[arguments.app, arguments.generation].append((arguments, process))
    drivers = [LiveDriver(group[0][0], tuple(p for _, p in group)) for group in groups.values()]
    return tuple(sorted(drivers, key=lambda d: -d.generation))


def python_driver(record: DriverRecord | None) -> ProcessId | None:
    """Return the process that a graceful stop must signal; None if no driver has recorded itself."""
    if record is None or record.boot_id is None or record.start_ticks is None:
        return None
    return ProcessId(record.pid, record.process_started, record.boot_id, record.start_ticks)


def driver_of(pid: int) -> DriverArguments | None:
    """Return the arguments of the driver that a process belongs to; None for other processes."""
    with contextlib.suppress(psutil.Error):
        return recognise(psutil.Process(pid).cmdline())
    return None


def _drivers() -> Iterable[tuple[DriverArguments, ProcessId]]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            arguments = recognise(process.cmdline())
            # another user's process may call itself anything
            if arguments is not None and process.uids().real == os.getuid():
                yield arguments, ProcessId.of(process.pid)


def _same(left: Path, right: Path) -> bool:
    return left == right or os.path.realpath(left) == os.path.realpath(right)
