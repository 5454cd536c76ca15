"""The reconciler's entries in ``control/reconfigurations``: opened before it acts, ended when the outcome is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from include.drivers.app_drivers import Failure
from include.lake.reconfigurations import ReconfigurationStore
from include.model.decision import Outcome, Reconfiguration
from include.model.deployment import Deployment
from include.run_folder import generation

TIER = "T2"
TELEMETRY = "telemetry/batches"


@dataclass(frozen=True)
class Ledger:
    """The entries of one app.

    Attributes:
        pipeline: Name of the pipeline.
        app: Name of the app.
        store: Where they are kept.
        clock: The time (UTC).
    """

    pipeline: str
    app: str
    store: ReconfigurationStore
    clock: Callable[[], datetime]

    def begin(self, deployment: Deployment, number: int | None, before: int | None) -> Reconfiguration:
        """Record that a driver is about to be started (or, without a generation, stopped).

        Args:
            deployment: What it is done for.
            number: Generation of the driver to be started.
            before: The version that served until now; None without one.
        """
        version = None if number is None else deployment.version
        entry = Reconfiguration(
            pipeline=self.pipeline,
            app=self.app,
            decision_id=None if before == version else deployment.decision_id,  # the same version again is healing
            tier=TIER,
            from_version=before,
            to_version=version,
            generation=number,
            started=self.clock(),
            ended=None,
            downtime_s=None,
            outcome=Outcome.OPEN,
        )
        self.store.record(entry)
        return entry

    def end(
        self, entry: Reconfiguration, outcome: Outcome, error: str | None = None, downtime_s: float | None = None
    ) -> Reconfiguration:
        """Record how an entry ended and return it."""
        ended = replace(entry, ended=self.clock(), outcome=outcome, error=error, downtime_s=downtime_s)
        self.store.record(ended)
        return ended

    def record_failure(self, failure: Failure, outcome: Outcome) -> Reconfiguration:
        """Record that a driver which ran failed by itself, or was ended because it hung, and return the entry."""
        now = self.clock()
        entry = Reconfiguration(
            pipeline=self.pipeline,
            app=self.app,
            decision_id=None,
            tier=TIER,
            from_version=failure.version,
            to_version=failure.version,
            generation=failure.generation,
            started=now,
            ended=now,
            downtime_s=None,
            outcome=outcome,
            error=failure.error,
        )
        self.store.record(entry)
        return entry

    def newest_generation(self) -> int:
        """Return the highest generation that the lake has seen, recorded or at work, 0 before the first."""
        recorded = self.store.newest_generation(self.pipeline, self.app)
        return max(recorded, self.store.lake.committed(TELEMETRY, generation.fence(self.pipeline, self.app)))

    def open_entries(self) -> list[Reconfiguration]:
        """Return entries without an end, newest first."""
        return [entry for entry in self._entries() if entry.outcome is Outcome.OPEN]

    def ready_versions(self) -> list[int]:
        """Return the versions that have been ready, the latest first."""
        entries = [e for e in self._entries() if e.outcome is Outcome.READY and e.to_version is not None]
        return list(dict.fromkeys(e.to_version for e in entries if e.to_version is not None))

    def served_version(self) -> int | None:
        """Return the version that was ready last, None if there is none or the app was stopped since."""
        for entry in self._entries():
            if entry.outcome is Outcome.STOPPED:
                return None
            if entry.outcome is Outcome.READY:
                return entry.to_version
        return None

    def _entries(self) -> list[Reconfiguration]:
        return [entry for entry in self.store.recent(self.pipeline) if entry.app == self.app]
