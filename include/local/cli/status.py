"""The command status: one section a part, each as data and as a table."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table

from include.local.stack import lifecycle
from include.local.stack.home import Home
from include.local.stack.services import addresses


@dataclass(frozen=True)
class Section:
    """A part of the status.

    Args:
        name: Its key in ``--json``.
        data: What ``--json`` prints.
        table: What a person sees.
        well: Whether nothing in it needs attention.
    """

    name: str
    data: Any
    table: RenderableType
    well: bool = True


def stack_section(home: Home) -> Section:
    """Tell how the stack's services are.

    Args:
        home: Whose stack.
    """
    record = lifecycle.status(home)
    if record is None:
        return Section("stack", {"running": False, "healthy": False}, "The stack is down; ./millrace up starts it.")
    table = Table("service", "state", "for", "pid", "restarts", title="Stack", title_justify="left", box=None)
    services: dict[str, Any] = {}
    for name, service in record.services.items():
        state = service.state if record.running else "left behind"
        pid = service.process.pid if service.process else None
        services[name] = {"state": state, "since": service.since, "pid": pid, "restarts": service.restarts}
        table.add_row(name, state, _ago(service.since), str(pid or ""), str(service.restarts))
    found = addresses(home, record.ports)
    data = {
        "running": record.running,
        "healthy": record.healthy,
        "healthy_s": record.healthy_s,
        "addresses": found if record.running else {},
        "services": services,
    }
    told = "Its supervisor was killed; ./millrace down or up cleans up."
    if record.running:
        told = f"Airflow {found['airflow']}, MLflow {found['mlflow']}"
    return Section("stack", data, Group(table, told), record.healthy)


def _ago(since: float) -> str:
    seconds = int(max(0.0, time.time() - since))
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


def pipelines_section(home: Home) -> Section:
    """Tell how the pipelines and their drivers are.

    Args:
        home: Whose pipelines.
    """
    from include.lake.store import Lake
    from include.local.cli.status_pipelines import as_plain, cells, pipeline_statuses

    found = pipeline_statuses(Lake(home.lake), home.run / "drivers")
    if not found:
        return Section("pipelines", {}, "\nNo pipeline was launched yet; ./millrace trigger NAME launches one.")
    table = Table(title="Pipelines", title_justify="left", box=None)
    for column in ("pipeline", "wanted", "driver", "last batch"):
        table.add_column(column, no_wrap=True)
    table.add_column("last decision", overflow="fold")
    for status in found:
        table.add_row(*map(escape, cells(status)), style="red" if status.problem else None)
    data = {status.name: as_plain(status) for status in found}
    return Section("pipelines", data, Group("", table), not any(status.problem for status in found))


# every part adds its section here
SECTIONS: tuple[Callable[[Home], Section], ...] = (stack_section, pipelines_section)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def status(as_json: bool) -> int:
    """Show how the stack and the pipelines are; exit code 1 where something needs attention."""
    home = Home.from_env()
    sections = [make(home) for make in SECTIONS]
    if as_json:
        click.echo(json.dumps({s.name: s.data for s in sections}, indent=2, default=str))
    else:
        console = Console()
        for section in sections:
            console.print(section.table, highlight=False)
    return 0 if all(s.well for s in sections) else 1
