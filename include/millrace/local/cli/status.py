"""The command status: the state of the stack and the pipelines, as JSON or as tables."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table

from millrace.environment.home import Home
from millrace.lake.control_tables import ControlTables
from millrace.lake.reconfigurations import newest_of_each_app
from millrace.lake.report_problems import ReportProblem
from millrace.local.cli.status_part import Status
from millrace.local.cli.storage import storage_status
from millrace.local.stack import lifecycle
from millrace.local.stack.services import addresses
from millrace.model.codec import to_plain
from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.signals import Signals
from millrace.model.spec import PipelineSpec
from millrace.reporting.app_views import HEADINGS, AppView, app_views, in_short, not_needed, slots_of
from millrace.reporting.conditions import Condition, Truth, conditions
from millrace.run_folder import driver_records
from millrace.run_folder.discovery import python_driver
from millrace.run_folder.driver_records import ENDED, DriverRecord

HEALTHY = {Truth.TRUE: "yes", Truth.FALSE: "no", Truth.UNKNOWN: ""}
"""Cell of the condition Healthy."""


@click.command()
@click.option("--storage", is_flag=True, help="Show the size of the lake and of other folders instead.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def status(storage: bool, as_json: bool) -> int:
    """Show the state of the stack and the pipelines; exit code 1 if something needs attention."""
    from millrace.wiring import lake, table_keep_days

    home = Home.from_env()
    if storage:
        parts = {"storage": storage_status(home, lake(), table_keep_days())}
    else:
        parts = {"stack": stack_status(home), "pipelines": pipelines_status(home)}
    if as_json:
        click.echo(json.dumps({name: part.data for name, part in parts.items()}, indent=2, default=str))
    else:
        console = Console()
        for part in parts.values():
            console.print(part.table, highlight=False)
    return 0 if all(part.well for part in parts.values()) else 1


def stack_status(home: Home) -> Status:
    """Return the state of the stack's services."""
    from millrace.wiring import airflow_is_elsewhere

    record = lifecycle.status(home)
    if record is None:
        here = "The stack is down. Start it: ./millrace up"
        told = "Airflow does not belong to this home." if airflow_is_elsewhere() else here
        return Status({"running": False, "healthy": False}, told)
    table = Table("service", "state", "for", "pid", "restarts", title="Stack", title_justify="left", box=None)
    services: dict[str, Any] = {}
    for name, service in record.services.items():
        state = service.state if record.running else "left behind"
        pid = service.process.pid if service.process else None
        services[name] = {"state": state, "since": service.since, "pid": pid, "restarts": service.restarts}
        table.add_row(name, state, _age(service.since), str(pid or ""), str(service.restarts))
    pages = addresses(home, record.ports)
    data = {
        "running": record.running,
        "healthy": record.healthy,
        "healthy_s": record.healthy_s,
        "addresses": pages if record.running else {},
        "services": services,
    }
    if record.running:
        below = f"Airflow {pages['airflow']}, MLflow {pages['mlflow']}"
    else:
        below = "The supervisor was killed. Clean up with ./millrace down, or start again with ./millrace up."
    return Status(data, Group(table, below), record.healthy)


def _age(since: float) -> str:
    seconds = int(max(0.0, time.time() - since))
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


def pipelines_status(home: Home) -> Status:
    """Return the state of every pipeline that was ever launched, and of its drivers."""
    from millrace.wiring import control_tables

    pipelines = pipeline_statuses(control_tables(), home.run / "drivers")
    if not pipelines:
        return Status({}, "\nNo pipeline was launched yet. Launch one: ./millrace trigger NAME")
    table = Table(title="Pipelines", title_justify="left", box=None)
    for column in ("pipeline", "wanted", "driver", "last batch", "healthy"):
        table.add_column(column, no_wrap=True)
    table.add_column("last decision", overflow="fold")
    for pipeline in pipelines:
        table.add_row(*map(escape, pipeline.cells()), style="red" if pipeline.problem else None)
    graphs = [_graph(p) for p in pipelines if p.apps]
    data = {p.wanted.pipeline: p.as_plain() for p in pipelines}
    return Status(data, Group("", table, *graphs), not any(p.problem for p in pipelines))


def _graph(pipeline: PipelineStatus) -> Group:
    table = Table(*HEADINGS, title=f"Apps of {pipeline.wanted.pipeline}", title_justify="left", box=None)
    for app in pipeline.apps:
        name, *figures = map(escape, app.cells())
        branch = "   " * (app.depth - 1) + "└─ " if app.depth else ""
        table.add_row(branch + name, *figures)
    return Group("", table)


@dataclass(frozen=True)
class PipelineStatus:
    """State of one pipeline.

    Attributes:
        wanted: Its newest Deployment.
        drivers: Live drivers, newest first; otherwise the last driver.
        change: Its newest reconfiguration; one that is being carried out comes first.
        decision: Time, action and sentence of its newest Decision; None before the first.
        problem: Why the pipeline or one of its queries does not run although it should; None if all is well.
        changed: Changes of its spec and script that were not applied yet; None without changes.
        unreported: Why its changes are not logged to MLflow; None if they are.
        apps: Its apps if it has several, with what the last evaluation measured.
        signals: What the last evaluation measured; None if none did.
        restart: What a person has to restart, and how, if Millrace did not start the driver; None if nothing.
    """

    wanted: Deployment
    drivers: tuple[DriverRecord, ...]
    change: Reconfiguration | None
    decision: dict[str, Any] | None
    problem: str | None
    changed: str | None = None
    unreported: ReportProblem | None = None
    apps: tuple[AppView, ...] = ()
    signals: Signals | None = None
    restart: str | None = None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Its state as conditions."""
        alive = any(driver.state not in ENDED for driver in self.drivers)
        return conditions(self.wanted, alive=alive, change=self.change, problem=self.problem, signals=self.signals)

    def as_plain(self) -> dict[str, Any]:
        """Return the state as JSON-able types."""
        return {
            "running": self.wanted.running,
            "detached": self.wanted.detached,
            "finished": to_plain(self.wanted.finished),
            "conditions": [to_plain(condition) for condition in self.conditions],
            "version": self.wanted.version,
            "slots": {name: app.slots for name, app in self.wanted.apps.items()},
            "join": to_plain(self.wanted.join),
            "drivers": [to_plain(d) for d in self.drivers],
            "last_reconfiguration": to_plain(self.change) if self.change else None,
            "last_decision": to_plain(self.decision) if self.decision else None,
            "problem": self.problem,
            "restart": self.restart,
            "changed": self.changed,
            "unreported": to_plain(self.unreported) if self.unreported else None,
            "apps": [to_plain(app) for app in self.apps],
            "not_needed": list(not_needed(self.wanted)),
        }

    def cells(self, now: datetime | None = None) -> list[str]:
        """Return the state as a table row: pipeline, wanted, driver, last batch, health, last decision."""
        now = now or datetime.now(UTC)
        live = [d for d in self.drivers if d.state not in ENDED]
        named = len(self.wanted.apps) > 1
        drivers = in_short([f"{d.state.value} on {d.slots}" for d in live], [d.app for d in live] if named else [])
        commits = [d.last_commit_at for d in self.drivers if d.last_commit_at]
        last = f"{max(0, int((now - max(commits)).total_seconds()))} s ago" if commits else ""
        # the last Decision of a stopped pipeline is about a job that no longer runs
        stopped = self.wanted.state == "stopped"
        start = f"Stopped by {self.wanted.author}. Start it: ./millrace trigger {self.wanted.pipeline}"
        sentence = self.problem or self.restart or self.changed
        sentence = sentence or (start if stopped else (self.decision or {}).get("sentence", ""))
        if self.unreported is not None:
            since = f"{self.unreported.time:%Y-%m-%d %H:%M} UTC"
            sentence = (
                f"{sentence} Changes have not been logged to MLflow since {since}: {self.unreported.problem}".strip()
            )
        healthy = HEALTHY[self.conditions[-1].status]
        return [self.wanted.pipeline, _told(self.wanted, now), drivers, last, healthy, sentence]


def _told(wanted: Deployment, now: datetime) -> str:
    """Return a pipeline's desired state in a few words."""
    if wanted.finished is not None:
        day = "at " if wanted.finished.date() == now.date() else f"{wanted.finished:%m-%d} "
        return f"finished {day}{wanted.finished:%H:%M}"
    if not wanted.running:
        return wanted.state
    join = f", {wanted.join.workers} join workers" if wanted.join else ""
    return f"{'detached, ' if wanted.detached else ''}{slots_of(wanted)} slots{join}, version {wanted.version}"


def pipeline_statuses(tables: ControlTables, run_dir: Path) -> list[PipelineStatus]:
    """Return the state of every pipeline that was ever launched.

    Args:
        tables: The control tables.
        run_dir: Folder of the drivers' records.
    """
    from millrace.pipelines.catalog import load_all

    specs, _ = load_all()
    latest = tables.deployments.all_latest()
    return [_pipeline_status(tables, run_dir, wanted, specs.get(wanted.pipeline)) for wanted in latest]


def _pipeline_status(
    tables: ControlTables, run_dir: Path, wanted: Deployment, spec: PipelineSpec | None
) -> PipelineStatus:
    from millrace import wiring
    from millrace.control.spec_update import spec_update

    of_apps = newest_of_each_app(tables.reconfigurations.recent(wanted.pipeline))
    change = next((c for c in of_apps if c.outcome is Outcome.OPEN), next(iter(of_apps), None))
    last = tables.decisions.last(wanted.pipeline)
    decision = {"time": last.time, "action": last.action.value, "sentence": last.sentence} if last else None
    drivers = _drivers(tables, run_dir, wanted)
    failed = driver_records.query_failures(run_dir, wanted.pipeline, wanted.apps)
    problem = wiring.problem(wanted, tables.deployments, spec) or " ".join(f.sentence for f in failed) or None
    update = None if spec is None else spec_update(spec, wanted)
    changed = None if update is None else f"{update.sentence}; apply it now: ./millrace trigger {wanted.pipeline}"
    unreported = tables.report_problems.current(wanted.pipeline)
    signals = tables.decisions.last_signals(wanted.pipeline)
    apps = tuple(app_views(wanted, lambda _: signals))
    restart = wiring.restart_needed(wanted, tables, spec)
    return PipelineStatus(wanted, drivers, change, decision, problem, changed, unreported, apps, signals, restart)


def _drivers(tables: ControlTables, run_dir: Path, wanted: Deployment) -> tuple[DriverRecord, ...]:
    if wanted.is_external:
        from millrace.wiring import external_reconciler

        return external_reconciler(wanted.pipeline, tables).status()
    return _living([r for app in wanted.apps for r in driver_records.all_of(run_dir, wanted.pipeline, app)])


def _living(records: list[DriverRecord]) -> tuple[DriverRecord, ...]:
    """Return the drivers whose process is alive, whatever their record says; otherwise the newest record."""
    alive = [r for r in records if r.state not in ENDED and (p := python_driver(r)) and p.alive()]
    return tuple(alive) or tuple(r for r in records[:1] if r.state in ENDED)
