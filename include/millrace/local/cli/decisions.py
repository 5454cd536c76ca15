"""The command decisions: show decisions and their reasons, read from the lake."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from millrace.local.demo.labels import slots_of, slots_text
from millrace.model.decision import Action, Decision

if TYPE_CHECKING:
    from millrace.lake.control_tables import ControlTables

COLOURS = {Action.APPLY: "green", Action.ROLL_BACK: "yellow", Action.AWAIT: "yellow", Action.VETO: "red"}


@click.command()
@click.argument("pipeline", required=False)
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Show at most this many, newest kept."
)
@click.option("--json", "as_json", is_flag=True, help="Print the stored Decisions as JSON.")
def decisions(pipeline: str | None, limit: int, as_json: bool) -> None:
    """Show the decisions for PIPELINE, or for all pipelines, and their reasons; newest last."""
    from millrace.model.codec import to_plain
    from millrace.wiring import control_tables

    tables = control_tables()
    recent = list(reversed(tables.decisions.recent(pipeline, limit)))
    if not recent and pipeline is not None:
        _must_be_known(pipeline, tables)
    if as_json:
        click.echo(json.dumps([to_plain(d) for d in recent], indent=2))
    elif not recent:
        click.echo("No decisions yet. The first evaluation runs when the first telemetry arrives.")
    else:
        console = Console()
        console.print(table(recent), highlight=False)
        for line in _planned(tables, pipeline, recent):
            console.print(line, highlight=False, markup=False)


def _planned(tables: ControlTables, pipeline: str | None, recent: list[Decision]) -> Iterator[str]:
    """Yield what is planned for more arrival, as the agents carry it out or as only the newest decision shows it."""
    from millrace.model.contingency import describe

    newest = {decision.pipeline: decision.contingencies for decision in recent}
    for deployment in tables.deployments.all_latest():
        name, plan = deployment.pipeline, deployment.contingencies
        if pipeline in (None, name) and plan is not None:
            yield f"Planned ahead for {name}: {describe(plan.lines)}"
        elif pipeline in (None, name) and (lines := newest.get(name)):
            yield f"Planned ahead for {name}, but inactive: {describe(lines)}"


def table(decisions: list[Decision]) -> Table:
    """Return Decisions as a table that stays readable at 100 columns."""
    several = len({d.pipeline for d in decisions}) > 1
    rows = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    rows.add_column("time (UTC)", no_wrap=True)
    if several:
        rows.add_column("pipeline", no_wrap=True)
    rows.add_column("action", no_wrap=True)
    rows.add_column("slots", no_wrap=True, justify="right")
    rows.add_column("reason", overflow="fold", max_width=18)
    rows.add_column("why", overflow="fold", ratio=1)
    for decision in decisions:
        rows.add_row(*_cells(decision, several))
    return rows


def _cells(decision: Decision, several: bool) -> list[Text]:
    apps = [app.app for app in decision.signals.apps] if decision.signals else [c.app for c in decision.changes]
    slots = " ".join(slots_text(*slots_of(decision, app)) for app in dict.fromkeys(apps))
    return [
        Text(f"{decision.time:%m-%d %H:%M:%S}"),
        *([Text(decision.pipeline)] if several else []),
        Text(decision.action.value, style=COLOURS.get(decision.action, "dim")),
        Text(slots),
        Text(decision.reason_code.replace("_", " "), style="dim"),
        Text(decision.sentence),
    ]


def _must_be_known(pipeline: str, tables: ControlTables) -> None:
    """Raise if no such pipeline exists; a pipeline without a spec that was launched once exists."""
    from millrace.pipelines.catalog import find

    if tables.deployments.latest(pipeline) is None:
        find(pipeline)
