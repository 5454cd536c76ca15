"""What the placement of state means for measured throughput: since when it holds, and how unevenly slots share work."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from millrace.control.batch_history import HISTORY
from millrace.control.capacity import EVEN, Uneven
from millrace.lake.control_tables import ControlTables
from millrace.model.decision import LIVE, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.placement import PartitionLoads
from millrace.model.spec import PipelineSpec


def last_moves(
    spec: PipelineSpec, tables: ControlTables, changes: Sequence[Reconfiguration], now: datetime
) -> datetime | None:
    """Return when state partitions last moved while the slots stayed; None if they did not lately.

    The batches before show another throughput of the same slots.
    """
    if spec.placement is None:
        return None
    recent = (c for c in changes if c.started > now - HISTORY and c.tier == LIVE)
    for change in recent:
        versions = (
            tables.deployments.get(spec.name, number or 0) for number in (change.from_version, change.to_version)
        )
        before, after = (None if version is None else version.apps.get(spec.app) for version in versions)
        if before is None or after is None or before.slots != after.slots:
            return None  # the batches on these slots have followed
        if before.placement != after.placement:
            return change.ended
    return None


def unevenness(loads: PartitionLoads | None, current: Deployment, app: str, slots: int) -> Uneven:
    """Return how unevenly an app's slots share the work of its stages with state; evenly if that was not measured."""
    deployed = current.apps.get(app)
    if loads is None or deployed is None or deployed.executor is None:
        return EVEN
    return Uneven(slots, loads.unevenness(deployed.slots_per_executor, slots))
