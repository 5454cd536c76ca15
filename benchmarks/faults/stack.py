"""A whole stack with a running pipeline, and whether all of it is healthy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks.elastic.pipeline import wait_until
from millrace.environment.home import Home
from millrace.lake.control_tables import ControlTables
from millrace.local.demo.demo_env import DemoEnv
from millrace.local.stack import lifecycle
from millrace.model.errors import MillraceError
from millrace.model.spec import PipelineSpec
from millrace.run_folder import driver_records
from millrace.run_folder.driver_records import DriverRecord
from millrace.run_folder.process import ProcessId

PIPELINE = "delays"


@dataclass(frozen=True)
class Stack:
    """A running stack with a running pipeline.

    Attributes:
        env: Its home, and how to stop it.
        spec: The pipeline.
        tables: Its control tables.
    """

    env: DemoEnv
    spec: PipelineSpec
    tables: ControlTables

    @property
    def home(self) -> Home:
        """Its home."""
        return self.env.home

    def service(self, name: str) -> ProcessId:
        """Return the process of a running service."""
        found: list[ProcessId] = []

        def is_up() -> bool:
            record = lifecycle.status(self.home)
            process = None if record is None else record.services[name].process
            found[:] = [process] if process is not None and process.alive() else []
            return bool(found)

        wait_until(is_up, name)
        return found[0]

    def record(self) -> DriverRecord | None:
        """Return the record of the newest driver."""
        return next(iter(driver_records.all_of(self.env.run_dir, PIPELINE, self.spec.app)), None)

    def well_since(self, time_s: float) -> bool:
        """Return whether all services are healthy and batches and decisions continued after a time (Unix seconds)."""
        record, driver = lifecycle.status(self.home), self.record()
        try:
            decision, wanted = self.tables.decisions.last(PIPELINE), self.tables.deployments.latest(PIPELINE)
        except MillraceError:
            return False
        if record is None or driver is None or decision is None or wanted is None:
            return False
        since = datetime.fromtimestamp(time_s, UTC)
        committed = driver.last_commit_at is not None and driver.last_commit_at > since
        return (
            record.healthy and committed and driver.slots == wanted.apps[self.spec.app].slots and decision.time > since
        )
