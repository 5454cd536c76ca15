"""When each step of a change happened, read from the lake.

    telemetry committed -> Decision -> version committed -> executors started -> registered -> first batch on them

The agent's request for executors is not stored. The worker starts their processes within milliseconds of it, so the
first process start stands for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from millrace.control.proposals import is_forced
from millrace.lake.control_tables import ControlTables
from millrace.lake.source_tables import arrivals, is_table
from millrace.lake.store import Lake, literal
from millrace.model.decision import LIVE, Outcome
from millrace.model.deployment import AppDeployment
from millrace.model.spec import PipelineSpec

ALL = 100_000
STEPS = (
    "commit to decision",
    "decision to version",
    "version to executors started",
    "executors started to registered",
    "registered to first batch",
)

Limits = Mapping[int, float | None]
"""Highest acceptable seconds, by percentile."""
NO_LIMITS: Limits = {50: None, 95: None}
DECISION_LIMITS: Limits = {50: None, 95: 5.0}
"""From a commit of telemetry to the Decision on it."""
REGISTERED_LIMITS: Mapping[int, Limits] = {1: {50: 5.0, 95: 7.0}, 2: {50: 6.0, 95: 8.0}, 3: {50: 7.0, 95: 9.0}}
"""From a Decision to registered executors, by number of new executors."""


@dataclass(frozen=True)
class Change:
    """A change to more slots; times are seconds since 1970, None for an event that never happened.

    Attributes:
        executors: Number of new executors.
        commit: Newest commit of telemetry before the decision; None for a change that a person forced.
        decision: Time of the decision.
        version: When its Deployment was committed.
        started: When the first of its executors was started.
        registered: When all its executors had registered.
        batch: End of the first batch that started on them.
    """

    executors: int
    commit: float | None
    decision: float
    version: float | None
    started: float | None
    registered: float
    batch: float | None

    @property
    def steps(self) -> dict[str, float]:
        """Seconds of each of :data:`STEPS` whose two ends are known."""
        moments = (self.commit, self.decision, self.version, self.started, self.registered, self.batch)
        pairs = zip(STEPS, moments, moments[1:], strict=False)
        return {name: b - a for name, a, b in pairs if a is not None and b is not None}


def waits_for_decisions(lake: Lake, pipeline: str) -> list[float]:
    """Return the time from the newest telemetry commit before an evaluation to the commit of its Decision."""
    commits, recorded = _commits(lake, "telemetry/batches"), _commits(lake, "control/decisions")
    waits = []
    for begun in (d.time.timestamp() for d in ControlTables(lake).decisions.recent(pipeline, ALL)):
        before, after = commits[commits <= begun], recorded[recorded >= begun]
        if before.size and after.size:
            waits.append(float(after.min() - before.max()))
    return waits


def changes_up(spec: PipelineSpec, lake: Lake, executor_starts: Sequence[float] = ()) -> list[Change]:
    """Return the live changes to more executors, oldest first.

    Args:
        spec: The pipeline.
        lake: The lake of its records.
        executor_starts: Start times of executor processes, seconds since 1970; empty if they were not watched.
    """
    tables, commits = ControlTables(lake), _commits(lake, "telemetry/batches")
    decisions = {d.decision_id: d for d in tables.decisions.recent(spec.name, ALL)}
    versions = {d.version: time.timestamp() for time, d in tables.deployments.versions(spec.name, ALL)}
    starts, found = np.sort(np.array(executor_starts)), []
    for change in reversed(tables.reconfigurations.recent(spec.name, ALL)):
        decision = decisions.get(change.decision_id or "")
        if change.tier != LIVE or change.outcome is not Outcome.READY or not change.ended or decision is None:
            continue
        old, new = (_app(spec, tables, version) for version in (change.from_version, change.to_version))
        if old is None or new is None or new.executors <= old.executors:
            continue
        decided, registered = decision.time.timestamp(), change.ended.timestamp()
        earlier = commits[commits <= decided]
        between = starts[(starts >= decided) & (starts <= registered)]
        found.append(
            Change(
                executors=new.executors - old.executors,
                commit=None if is_forced(decision.proposals) or not earlier.size else float(earlier.max()),
                decision=decided,
                version=versions.get(change.to_version or 0),
                started=float(between[0]) if between.size else None,
                registered=registered,
                batch=_first_batch(spec, lake, new.slots, registered),
            )
        )
    return found


def _first_batch(spec: PipelineSpec, lake: Lake, slots: int, after: float) -> float | None:
    """Return the end of the first batch that started after a time on this number of slots."""
    sql = f"""
        select time, durations_ms from batches where pipeline = {literal(spec.name)} and app = {literal(spec.app)}
        and slots = {int(slots)} and rows_in > 0 order by time
    """  # noqa: S608 - values pass through literal()
    for row in lake.rows(sql, "telemetry/batches"):
        end, took_ms = row["time"].timestamp(), dict(row["durations_ms"] or ()).get("triggerExecution", 0)
        if end - took_ms / 1000 > after:
            return float(end)
    return None


def _app(spec: PipelineSpec, tables: ControlTables, version: int | None) -> AppDeployment | None:
    deployment = None if version is None else tables.deployments.get(spec.name, version)
    return None if deployment is None else deployment.apps.get(spec.app)


def _commits(lake: Lake, table: str) -> NDArray[np.float64]:
    folder = lake.path(table)
    times = arrivals(folder)["time"].to_pylist() if is_table(folder) else []
    return np.array([time.timestamp() for time in times])
