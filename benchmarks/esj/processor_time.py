"""Processor time of this process and all that it has started, at the end of each batch of a stream."""

from __future__ import annotations

import time

import psutil


class Meter:
    """Note the time at the end of each batch.

    Args:
        rows: Rows of the whole stream.

    Attributes:
        cpu_s: Processor time at the end of each batch, seconds.
        wall_s: The clock at these times, seconds.
    """

    def __init__(self, rows: int) -> None:
        self.rows, self.cpu_s, self.wall_s = rows, list[float](), list[float]()

    def note(self) -> None:
        """Note the time now."""
        self.cpu_s.append(_cpu_s())
        self.wall_s.append(time.monotonic())


def _cpu_s() -> float:
    total = 0.0
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        # the daemon's time includes Python workers that have ended
        total += times.user + times.system + (times.children_user + times.children_system) * (process != own)
    return total
