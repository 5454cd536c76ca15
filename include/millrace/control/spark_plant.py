"""The real plant: Spark drivers, observed through their telemetry and changed by the reconciler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from millrace.control.collect import collect
from millrace.lake.control_tables import ControlTables
from millrace.model.decision import Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.errors import Conflict
from millrace.model.protocols import Cursor
from millrace.model.signals import Signals
from millrace.model.spec import PipelineSpec


class Reconciles(Protocol):
    """Starts and stops drivers until they match the newest Deployment."""

    def reconcile(self) -> tuple[Reconfiguration, ...]:
        """Start or stop what differs and return what happened."""
        ...


@dataclass(frozen=True)
class SparkPlant:
    """One pipeline's Spark apps.

    Attributes:
        spec: The pipeline.
        tables: Its control tables, in the lake of its telemetry.
        reconciler: The only component that starts or stops a driver.
        clock: The present (UTC).
    """

    spec: PipelineSpec
    tables: ControlTables
    reconciler: Reconciles
    clock: Callable[[], datetime]

    def observe(self, since: Cursor) -> Signals:
        """Return the Signals since the last evaluation.

        Raises:
            NotReady: Quietly, if there is nothing new.
        """
        return collect(self.spec, self.tables, since, self.clock())

    def apply(self, target: Deployment) -> tuple[Reconfiguration, ...]:
        """Make Spark run ``target``, which must be the pipeline's newest version, and return what happened.

        Raises:
            Conflict: If the pipeline has moved on to another version; nothing is changed then.
        """
        latest = self.tables.deployments.latest(self.spec.name)
        if latest is None or latest.version != target.version:
            newest = "none" if latest is None else str(latest.version)
            raise Conflict(f"{self.spec.name}: version {target.version} is not the newest one ({newest})")
        return self.reconciler.reconcile()
