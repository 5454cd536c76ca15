"""Which nodes of a fleet must get no stream: their drivers have died, or cannot start."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from millrace.lake.control_tables import ControlTables
from millrace.lake.store import Lake, literal
from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.spec import PipelineSpec

BATCHES = "telemetry/batches"
VERSIONS = 50
"""Newest Deployments in which the start of a node is looked for; what is older was long ago."""
RETRY = timedelta(minutes=10)
"""Time after a failed start in which a node that is not needed is not tried again."""
FAILED = (Outcome.FAILED, Outcome.ROLLED_BACK, Outcome.CIRCUIT_OPEN)


def down_nodes(
    spec: PipelineSpec, tables: ControlTables, changes: Sequence[Reconfiguration], now: datetime
) -> tuple[str, ...]:
    """Return the nodes of a fleet that must get no stream, by name.

    A node that has to run is down if it has not reported for ``ready_deadline_s``, which is also how long it may take
    to start, or for ``period_s``, which is longer than a driver holds its reports back. Another one is down for a while
    after a start that failed: otherwise a plan would try it again at once. A node that the newest Deployment does not
    have, because a change of the spec was not taken over, is down too.

    Args:
        spec: The fleet.
        tables: Its control tables, in the lake of its telemetry.
        changes: Its newest Reconfigurations, newest first.
        now: The present (UTC).
    """
    current = tables.deployments.latest(spec.name)
    if spec.fleet is None or current is None:
        return ()
    patience = timedelta(seconds=max(spec.ready_deadline_s, spec.period_s))
    versions = tables.deployments.versions(spec.name, VERSIONS)
    reported = _reported(tables.lake, spec.name, now - patience)
    down = []
    for app in spec.fleet.node_names:
        if app not in current.apps:
            silent = True
        elif current.wanted(app):
            begun = _wanted_since(app, versions)
            silent = app not in reported and (begun is None or begun < now - patience)
        else:
            last = next((change for change in changes if change.app == app and change.ended is not None), None)
            silent = last is not None and last.outcome in FAILED and (last.ended or now) > now - RETRY
        if silent:
            down.append(app)
    return tuple(down)


def _wanted_since(app: str, versions: Sequence[tuple[datetime, Deployment]]) -> datetime | None:
    """Return when an app was first needed again (UTC); None if that was before all versions (newest first)."""
    for (made, _), (_, before) in pairwise(versions):
        if not before.wanted(app):
            return made
    return versions[-1][0] if versions and versions[-1][1].version == 1 else None


def _reported(lake: Lake, pipeline: str, since: datetime) -> set[str]:
    """Return the apps that have reported since a time (UTC)."""
    where = f"pipeline = {literal(pipeline)} and time >= {literal(since)}"
    return {row["app"] for row in lake.rows(f"select distinct app from batches where {where}", BATCHES)}  # noqa: S608 - literal()
