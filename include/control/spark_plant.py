"""The plant that is real: Spark drivers seen through their telemetry and changed by the reconciler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from include.control.collect import collect
from include.lake.control_tables import ControlTables
from include.model.decision import Reconfiguration
from include.model.deployment import Deployment
from include.model.errors import Conflict
from include.model.protocols import Cursor
from include.model.signals import Signals
from include.model.spec import PipelineSpec


class Reconciles(Protocol):
    """What starts and stops drivers until they are what the newest Deployment says."""

    def reconcile(self) -> tuple[Reconfiguration, ...]:
        """Start or stop what differs and say what happened."""
        ...


@dataclass(frozen=True)
class SparkPlant:
    """One pipeline's Spark apps.

    Attributes:
        spec: The pipeline.
        tables: Its control tables, in the lake of its telemetry.
        reconciler: The only one that starts or stops a driver.
        clock: The present (UTC).
    """

    spec: PipelineSpec
    tables: ControlTables
    reconciler: Reconciles
    clock: Callable[[], datetime]

    def observe(self, since: Cursor) -> Signals:
        """Return what happened since the last evaluation.

        Raises:
            NotReady: Quietly, if there is nothing new.
        """
        return collect(self.spec, self.tables, since, self.clock())

    def apply(self, target: Deployment) -> tuple[Reconfiguration, ...]:
        """Make Spark run ``target``, which must be the pipeline's newest version, and say what happened.

        Raises:
            Conflict: If the pipeline has moved on to another version; nothing is changed then.
        """
        latest = self.tables.deployments.latest(self.spec.name)
        if latest is None or latest.version != target.version:
            newest = "none" if latest is None else str(latest.version)
            raise Conflict(f"{self.spec.name}: version {target.version} is not the newest one ({newest})")
        return self.reconciler.reconcile()
