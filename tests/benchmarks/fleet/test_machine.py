"""The time that drivers were alive."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.elastic.measure import core_seconds
from benchmarks.fleet.machine import DriverWatch
from millrace.run_folder.arguments import DriverArguments
from millrace.run_folder.discovery import LiveDriver


@dataclass(frozen=True)
class Aged:
    """Stands for a process."""

    age: float

    def age_s(self) -> float:
        return self.age


def driver(app: str, generation: int, *ages: float) -> LiveDriver:
    given = DriverArguments("p", app, generation, 1, 2, 0, Path("/run"), "/lake", 1.0, 1.0, 1.0, Path("/s.py"), ())
    processes: Any = tuple(Aged(age) for age in ages)
    return LiveDriver(given, processes)


def test_driver_is_alive_from_its_start_until_it_was_last_seen() -> None:
    alive: list[LiveDriver] = []
    watch = DriverWatch(lambda: alive)
    for now, drivers in (
        (100.0, [driver("node0", 1, 30.0, 28.0)]),
        (110.0, [driver("node0", 1, 40.0, 38.0), driver("node1", 1, 0.5)]),
        (120.0, [driver("node1", 1, 10.5)]),
        (130.0, [driver("node1", 2, 2.0)]),
    ):
        alive[:] = drivers
        watch.look(now)
    spans = sorted((life.begin, life.end) for life in watch.lives())
    assert spans == [(70.0, 110.0), (109.5, 120.0), (128.0, 130.0)]
    assert core_seconds(watch.lives(), 100.0, 129.0) == pytest.approx(10 + 10.5 + 1)
