"""The pipelines' part of ``status``: what is wanted, what runs, what was decided last."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from include import wiring
from include.lake.store import Lake
from include.model.codec import to_plain
from include.model.decision import Reconfiguration
from include.model.deployment import Deployment
from include.run_folder import record as driver_records
from include.run_folder.discovery import python_driver
from include.run_folder.record import ENDED, DriverRecord


@dataclass(frozen=True)
class PipelineStatus:
    """One pipeline.

    Attributes:
        name: Its name.
        wanted: Its newest Deployment.
        drivers: Drivers that are alive, newest first; else the last one that was.
        change: Its newest reconfiguration.
        decision: Time, action and sentence of its newest Decision; None before the first.
        problem: What is wanted and does not run, and why; None if all is well.
    """

    name: str
    wanted: Deployment
    drivers: tuple[DriverRecord, ...]
    change: Reconfiguration | None
    decision: dict[str, Any] | None
    problem: str | None


def pipeline_statuses(lake: Lake, run_dir: Path) -> list[PipelineStatus]:
    """Return every pipeline that was ever launched.

    Args:
        lake: The lake.
        run_dir: Folder of the drivers' records.
    """
    from include.lake.decisions import DecisionStore
    from include.lake.deployments import DeploymentStore
    from include.lake.reconfigurations import ReconfigurationStore

    found = []
    for wanted in DeploymentStore(lake).all_latest():
        change = next(iter(ReconfigurationStore(lake).recent(wanted.pipeline, limit=1)), None)
        last = DecisionStore(lake).last(wanted.pipeline)
        decision = {"time": last.time, "action": last.action.value, "sentence": last.sentence} if last else None
        records = [r for app in wanted.apps for r in driver_records.all_of(run_dir, wanted.pipeline, app)]
        found.append(
            PipelineStatus(wanted.pipeline, wanted, _living(records), change, decision, wiring.problem(wanted, lake))
        )
    return found


def _living(records: list[DriverRecord]) -> tuple[DriverRecord, ...]:
    """Return the drivers whose process is alive, whatever their record says; else the newest record."""
    alive = [r for r in records if r.state not in ENDED and (p := python_driver(r)) and p.alive()]
    return tuple(alive) or tuple(r for r in records[:1] if r.state in ENDED)


def as_plain(status: PipelineStatus) -> dict[str, Any]:
    """Return a status as JSON-able types."""
    return {
        "running": status.wanted.running,
        "version": status.wanted.version,
        "slots": {name: app.slots for name, app in status.wanted.apps.items()},
        "join": to_plain(status.wanted.join),
        "drivers": [to_plain(d) for d in status.drivers],
        "last_reconfiguration": to_plain(status.change) if status.change else None,
        "last_decision": to_plain(status.decision) if status.decision else None,
        "problem": status.problem,
    }


def cells(status: PipelineStatus, now: datetime | None = None) -> list[str]:
    """Return a status as a table's row: pipeline, wanted, driver, last batch, last decision."""
    now = now or datetime.now(UTC)
    slots = ", ".join(str(app.slots) for app in status.wanted.apps.values())
    join = f", {status.wanted.join.workers} join workers" if status.wanted.join else ""
    wanted = f"{slots} slots{join}, version {status.wanted.version}" if status.wanted.running else "stopped"
    drivers = ", ".join(f"{d.state.value} on {d.slots}" for d in status.drivers if d.state not in ENDED) or "none"
    commits = [d.last_commit_at for d in status.drivers if d.last_commit_at]
    last = f"{max(0, int((now - max(commits)).total_seconds()))} s ago" if commits else ""
    told = status.problem or (status.decision["sentence"] if status.decision else "")
    return [status.name, wanted, drivers, last, told]
