"""Starts ``jobs/run_script.py`` by spark-submit, as the reconciler does, and watches it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from millrace.drivers import submit
from millrace.drivers.submit import SubmitOptions
from millrace.environment.spark_env import submit_options
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.model.deployment import AppDeployment, Deployment, ExecutorSize
from millrace.run_folder import driver_records
from millrace.run_folder.arguments import DriverArguments
from millrace.run_folder.driver_records import DriverRecord, app_dir
from millrace.run_folder.generation import allot

SCRIPTS = Path(__file__).with_name("scripts")
LIMIT_S = 1800.0


def until(condition: Callable[[], object], why: str) -> None:
    """Wait for a condition. A loaded machine may take long, so the limit only ends a wait that would never end."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"never came true: {why}"
        time.sleep(0.05)


class Driving:
    """One driver of pipeline ``p``, app ``a``; ``how`` is the spec's ``submit``.

    With an executor, its Deployment is in the lake, and the driver follows it there.
    """

    def __init__(
        self, root: Path, script: str, *args: str, executor: ExecutorSize | None = None, **how: object
    ) -> None:
        self.root, self.log = root, root / "driver.log"
        folder = app_dir(root / "run", "p", "a")
        self.generation = allot(folder)
        path = SCRIPTS / script
        app = AppDeployment(str(path), args, 2, 1024, 8 if executor else 2, how, executor=executor)
        if executor:
            DeploymentStore(Lake(root / "lake")).commit(Deployment("p", 1, True, {"a": app}), None)
        arguments = DriverArguments(
            "p", "a", self.generation, 1, 2, 0, root / "run", str(root / "lake"), 60.0, 120.0, 30.0, path, args
        )
        options: SubmitOptions = submit_options()
        self.process: subprocess.Popen[bytes] = submit.start(options, app, arguments, self.log)

    def deploy(self, slots: int) -> None:
        """Commit a version with other slots."""
        deployments = DeploymentStore(Lake(self.root / "lake"))
        latest = deployments.latest("p")
        assert latest is not None
        app = replace(latest.apps["a"], slots=slots)
        deployments.commit(replace(latest, apps={"a": app}), latest.version)

    def record(self) -> DriverRecord | None:
        return driver_records.read(self.root / "run", "p", "a", self.generation)

    def until(self, condition: Callable[[DriverRecord], object], why: str) -> DriverRecord:
        """Wait until the driver's record meets a condition."""

        def reached() -> bool:
            record = self.record()
            return record is not None and bool(condition(record))

        try:
            until(reached, why)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.record()}\n{self.log.read_text()[-3000:]}") from None
        record = self.record()
        assert record is not None
        return record
