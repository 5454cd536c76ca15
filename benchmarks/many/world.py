"""A stack in a temporary home, and pipelines whose drivers are synthetic."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from benchmarks.many.drivers import PERIOD_S, START_SLOTS
from benchmarks.many.load import CYCLE_S, FIRST_SILENT_S
from benchmarks.many.processor_time import Meter, read_processes, total_by_service
from millrace.control.launch import launch
from millrace.environment.home import Home
from millrace.lake.control_tables import ControlTables
from millrace.lake.decisions import TABLE as DECISIONS
from millrace.lake.store import Lake
from millrace.local.stack import lifecycle
from millrace.pipelines.catalog import load
from millrace.places import REPO

SUPERVISOR, DRIVERS = "supervisor", "synthetic drivers"
FIRST_DECISIONS_S, POLL_S = 180.0, 2.0
"""Longest wait for each pipeline's first Decision, seconds: with too many pipelines some get none."""
SETTLE_S = PERIOD_S / 3 + 30.0
"""Time from the end of the first pipeline's silence until all evaluations on the ends are over, seconds."""
CONTENT: Mapping[str, object] = {
    "mode": "auto",
    "period_s": PERIOD_S,
    "submit": {"launcher": "external"},
    "slots": {"min": 1, "max": 8, "start": START_SLOTS},
}


def names(count: int) -> list[str]:
    """Return the names of pipelines."""
    return [f"pipeline_{number:02d}" for number in range(count)]


@dataclass
class World:
    """A running stack without pipelines of its own at first.

    Attributes:
        home: Its home.
        specs: Folder with the pipelines' specs.
        drivers: The process of the synthetic drivers, once there is one.
    """

    home: Home
    specs: Path
    drivers: subprocess.Popen[bytes] | None = None
    _cycles_s: float = 0.0

    @property
    def lake(self) -> Lake:
        """The stack's lake, opened again by every call."""
        return Lake(self.home.lake)

    def add(self, pipelines: Sequence[str]) -> None:
        """Write the specs of pipelines, start their drivers and launch them."""
        for name in pipelines:
            (self.specs / f"{name}.yaml").write_text(json.dumps({"name": name, **CONTENT}), encoding="utf-8")
        with (self.home.logs / "synthetic_drivers.log").open("ab") as log:
            self.drivers = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.many.drivers", str(self.home.lake), *pipelines],
                cwd=REPO,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        tables = ControlTables(self.lake)
        for name in pipelines:
            launch(load(self.specs / f"{name}.yaml", {"MILLRACE_HOME": str(self.home.root)}), tables, author="bench")

    def wait_for_decisions(self, pipelines: Sequence[str]) -> int:
        """Wait until each pipeline has a Decision, for three minutes at most; return how many have one."""
        deadline, decided = time.monotonic() + FIRST_DECISIONS_S, set[str]()
        while not decided.issuperset(pipelines) and time.monotonic() < deadline:
            time.sleep(POLL_S)
            self.check()
            if self.lake.exists(DECISIONS):
                decided = {row["pipeline"] for row in self.lake.rows("select pipeline from decisions", DECISIONS)}
        return len(decided.intersection(pipelines))

    def begin_cycles(self) -> None:
        """Let the drivers begin their cycles of silences."""
        assert self.drivers is not None
        self.drivers.send_signal(signal.SIGUSR1)
        self._cycles_s = time.monotonic() + FIRST_SILENT_S + SETTLE_S

    def wait_for_cycle(self) -> None:
        """Wait until a cycle begins: all pipelines have ended a silence, and none has begun the next one."""
        past_s = time.monotonic() - self._cycles_s
        time.sleep(-past_s if past_s <= 0 else CYCLE_S - past_s % CYCLE_S)
        self.check()

    def check(self) -> None:
        """Raise an error if the drivers have ended.

        Raises:
            RuntimeError: With the end of their log.
        """
        if self.drivers is not None and self.drivers.poll() is not None:
            tail = lifecycle.tail(self.home.logs / "synthetic_drivers.log", 20)
            raise RuntimeError("\n".join(["the synthetic drivers have ended:", *tail]))

    def meter(self) -> Meter:
        """Return a meter of the processor time of the stack's services and the drivers."""
        return Meter(self._sample)

    def stored_mb(self) -> Mapping[str, float]:
        """Return what Airflow and MLflow keep in files, MB, by program."""
        return {
            name: _size_mb(folder) for name, folder in (("Airflow", self.home.airflow), ("MLflow", self.home.mlflow))
        }

    def _sample(self) -> Mapping[str, float]:
        record = lifecycle.status(self.home)
        if record is None:
            return {}
        services = {s.process.pid: name for name, s in record.services.items() if s.process and s.state != "done"}
        leaders = {**services, record.supervisor.pid: SUPERVISOR}
        if self.drivers is not None:
            leaders[self.drivers.pid] = DRIVERS
        return total_by_service(read_processes(), leaders, record.supervisor.pid)

    def close(self) -> None:
        """End the drivers."""
        if self.drivers is not None and self.drivers.poll() is None:
            self.drivers.terminate()
            self.drivers.wait()


def _size_mb(folder: Path) -> float:
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):  # it is gone
            total += file.lstat().st_size if file.is_file() else 0
    return total / 1e6


@contextmanager
def running_world() -> Iterator[World]:
    """Run a stack in a temporary home, with an empty folder of specs; both are gone when the context ends."""
    with tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder:
        root = Path(folder).resolve()
        world = World(Home(root / "home"), root / "specs")
        world.specs.mkdir()
        with patch.dict(os.environ, {lifecycle.FOLDERS: str(world.specs)}), lifecycle.attached(world.home):
            try:
                yield world
            finally:
                world.close()
