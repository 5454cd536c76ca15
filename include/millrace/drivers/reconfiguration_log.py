"""The reconciler's entries in ``control/reconfigurations``: opened before it acts, ended when the outcome is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from millrace.drivers.app_drivers import DriverFailure
from millrace.lake.control_tables import ControlTables
from millrace.model.decision import LIVE, RESTART, SUCCEEDED, Outcome, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.run_folder import generation

TELEMETRY = "telemetry/batches"


@dataclass(frozen=True)
class ReconfigurationLog:
    """The entries of one app.

    Attributes:
        pipeline: Name of the pipeline.
        app: Name of the app.
        tables: Contains the entries.
        clock: Returns the current time (UTC).
    """

    pipeline: str
    app: str
    tables: ControlTables
    clock: Callable[[], datetime]

    def begin(self, deployment: Deployment, number: int | None, before: int | None) -> Reconfiguration:
        """Record that a driver is about to be started or (without a generation) stopped.

        Args:
            deployment: The Deployment for which this is done.
            number: Generation of the driver.
            before: The version that served until now; None if there was none.
        """
        version = None if number is None else deployment.version
        decided = before != version and self._is_decided(deployment, before)
        return self._record(self._entry(deployment.decision_id if decided else None, before, version, number))

    def _is_decided(self, deployment: Deployment, before: int | None) -> bool:
        """Return whether a version changes the app; a restart for one that changes only others is healing."""
        former = None if before is None else self.tables.deployments.get(self.pipeline, before)
        if former is None or former.running != deployment.running or former.join != deployment.join:
            return True
        return former.apps.get(self.app) != deployment.apps.get(self.app)

    def begin_live(self, deployment: Deployment, number: int, before: int | None) -> Reconfiguration:
        """Record that a running driver gets other executors, from the time at which it could know of them."""
        heard = self.tables.deployments.committed_at(self.pipeline, deployment.version)
        entry = self._entry(deployment.decision_id, before, deployment.version, number)
        return self._record(replace(entry, tier=LIVE, started=heard or entry.started))

    def end(
        self,
        entry: Reconfiguration,
        outcome: Outcome,
        error: str | None = None,
        downtime_s: float | None = None,
        ended: datetime | None = None,
    ) -> Reconfiguration:
        """Record how and when an entry ended, and return it; by default now, never before it began."""
        ended = self.clock() if ended is None else max(entry.started, ended)
        return self._record(replace(entry, ended=ended, outcome=outcome, error=error, downtime_s=downtime_s))

    def record_failure(self, failure: DriverFailure, outcome: Outcome) -> Reconfiguration:
        """Record that a running driver failed by itself, or was killed because it hung; return the entry."""
        entry = self._entry(None, failure.version, failure.version, failure.generation)
        return self._record(replace(entry, ended=entry.started, outcome=outcome, error=failure.error))

    def newest_version(self, number: int) -> int | None:
        """Return the version to which a driver was last moved, or did not get; None if there is no entry."""
        return next((entry.to_version for entry in self._entries() if entry.generation == number), None)

    def newest_generation(self) -> int:
        """Return the highest generation that the lake has seen, recorded or writing; 0 before the first."""
        recorded = self.tables.reconfigurations.newest_generation(self.pipeline, self.app)
        return max(recorded, self.tables.lake.committed(TELEMETRY, generation.fence(self.pipeline, self.app)))

    def open_entries(self) -> list[Reconfiguration]:
        """Return entries without an end, newest first."""
        return [entry for entry in self._entries() if entry.outcome is Outcome.OPEN]

    def ready_versions(self) -> list[int]:
        """Return the versions that have been ready, latest first."""
        ready = (entry.to_version for entry in self._entries() if entry.outcome is Outcome.READY)
        return list(dict.fromkeys(version for version in ready if version is not None))

    def served_version(self) -> int | None:
        """Return the version that was last ready; None if there is none or the app was stopped or finished since."""
        ended = (e for e in self._entries() if e.outcome in SUCCEEDED)
        last = next(ended, None)
        return None if last is None or last.outcome is not Outcome.READY else last.to_version

    def _entry(
        self, decision_id: str | None, before: int | None, version: int | None, number: int | None
    ) -> Reconfiguration:
        return Reconfiguration(
            pipeline=self.pipeline,
            app=self.app,
            decision_id=decision_id,
            tier=RESTART,
            from_version=before,
            to_version=version,
            generation=number,
            started=self.clock(),
            ended=None,
            downtime_s=None,
            outcome=Outcome.OPEN,
        )

    def _record(self, entry: Reconfiguration) -> Reconfiguration:
        self.tables.reconfigurations.record(entry)
        return entry

    def _entries(self) -> list[Reconfiguration]:
        return self.tables.reconfigurations.recent(self.pipeline, app=self.app)
