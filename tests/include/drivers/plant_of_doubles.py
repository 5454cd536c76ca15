"""A pipeline with driver doubles, in its own folder."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from millrace.drivers.app_reconciler import Method
from millrace.drivers.reconciler import Reconciler
from millrace.drivers.submit import SubmitOptions
from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.store import Lake
from millrace.model.deployment import Deployment, ExecutorSize
from millrace.model.spec import PipelineSpec
from millrace.run_folder.discovery import LiveDriver, find

ROOT = Path(__file__).resolve().parents[3]
DOUBLE = Path(__file__).with_name("driver_double.py")
NAME = "p"


class DoublesPlant:
    """Deployments, reconcilers and drivers of one pipeline under ``root``."""

    def __init__(self, root: Path, ready_s: float = 240.0, stop_s: float = 120.0) -> None:
        self.root, self.rows = root, root / "rows"
        script = root / "script.py"
        script.touch()
        local = {"master": "local"}
        deadlines = {"ready_deadline_s": ready_s, "stop_deadline_s": stop_s}
        self.spec = PipelineSpec.model_validate({"name": NAME, "script": str(script), "submit": local, **deadlines})
        self.lake = Lake(root / "lake")
        self.deployments = DeploymentStore(self.lake)

    def deploy(
        self,
        *behaviour: str,
        running: bool = True,
        author: str = "person",
        slots: int = 1,
        executor: ExecutorSize | None = None,
        partitions: int = 8,
        detached: bool = False,
        standby: bool = False,
    ) -> Deployment:
        """Commit the next version: drivers with this behaviour."""
        latest = self.deployments.latest(NAME)
        first = self.spec.first_deployment()
        app = replace(first.apps[NAME], args=(str(self.rows), *behaviour), slots=slots, executor=executor)
        app = replace(app, max_parallelism=partitions, standby=standby)
        content = replace(first, apps={NAME: app}, running=running, author=author, detached=detached)
        return self.deployments.commit(content, None if latest is None else latest.version)

    def reconciler(self, method: Method = "hand-over", clock: Callable[[], datetime] | None = None) -> Reconciler:
        """Return a reconciler as a new process would create it."""
        env = {k: os.environ[k] for k in ("PYTHONPATH", "PATH")}
        env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
        options = SubmitOptions(DOUBLE, env=env)
        now = clock or (lambda: datetime.now(UTC))
        return Reconciler(
            self.spec,
            ControlTables(Lake(self.root / "lake")),
            self.root / "run",
            self.root / "log",
            options,
            method,
            now,
        )

    def live(self) -> tuple[LiveDriver, ...]:
        return find(self.root / "run", NAME)

    def history(self) -> list:
        return ReconfigurationStore(Lake(self.root / "lake")).recent(NAME)

    def versions(self) -> list[tuple[int, int]]:
        """Return (generation, version) of the live drivers."""
        return [(d.generation, d.arguments.version) for d in self.live()]

    def kill(self, driver: LiveDriver) -> None:
        """kill -9 a driver and wait until it is gone."""
        for process in driver.processes:
            process.signal(signal.SIGKILL)
        self.until(lambda: not driver.alive())

    def committed(self) -> list[int]:
        return [int(line) for line in self.rows.read_text().splitlines()]

    def until(self, condition: Callable[[], bool], limit_s: float = 600.0) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < deadline, "the condition never came true"
            time.sleep(0.02)

    def close(self) -> None:
        for driver in self.live():
            self.kill(driver)
