"""The command fleet: show the nodes of a fleet, which streams they run, and the last plan."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from millrace.model.admission import LoadUnit
from millrace.model.codec import to_plain
from millrace.model.errors import MillraceError
from millrace.reporting.fleet_reports import NodeState
from millrace.reporting.fleet_view import FleetView, NodeView, StreamView, load_text

MOST_STREAMS, MOST_FAILURES, MOST_CHANGES, MOST_NAMED = 30, 10, 5, 4
"""Streams, errors, versions with moves, and moves of each that are shown."""
STYLES = {NodeState.DOWN: "red", NodeState.STARTING: "yellow", NodeState.STOPPING: "yellow", NodeState.STANDBY: "dim"}


@click.command()
@click.argument("pipeline")
@click.option("--all", "every", is_flag=True, help=f"List all streams, also if there are more than {MOST_STREAMS}.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def fleet(pipeline: str, every: bool, as_json: bool) -> int:
    """Show the nodes and streams of PIPELINE, and its plan; exit code 1 if a stream fails or a node is down."""
    from millrace import wiring
    from millrace.pipelines.catalog import find

    spec, tables = find(pipeline), wiring.control_tables()
    if spec.fleet is None:
        remedy = "Use ./millrace status for other pipelines."
        raise MillraceError("pipeline", pipeline, "a pipeline with a section fleet", remedy)
    deployed = tables.deployments.latest(pipeline)
    if deployed is None:
        never = f"{pipeline} was never launched. Launch it: ./millrace trigger {pipeline}"
        click.echo("null" if as_json else never)
        return 0
    view, problem = wiring.fleet(spec, deployed, tables), wiring.problem(deployed, tables.deployments, spec)
    if as_json:
        click.echo(json.dumps({**to_plain(view), "problem": problem}, indent=2))
    else:
        shown = view.streams if every else view.listed(MOST_STREAMS)
        console = Console()
        for table in (nodes_table(view), Text(), streams_table(view, shown)):
            console.print(table, highlight=False)
        for line in _below(view, shown, problem):
            console.print(line, highlight=False, soft_wrap=True)
    return 0 if view.well else 1


def nodes_table(view: FleetView) -> Table:
    """Return the nodes as a table."""
    return _table(
        ("node", "state", "streams", f"{view.unit} now", "next", "of", "full"),
        (_node(node, view.unit) for node in view.nodes),
        left=2,
    )


def streams_table(view: FleetView, shown: Sequence[StreamView]) -> Table:
    """Return some streams as a table."""
    headings = ("node", "stream", "state", f"{view.unit} now", "forecast", "rows/s arrive", "rows wait")
    return _table(headings, (_stream(stream, view.unit) for stream in shown), left=3)


def _table(headings: Sequence[str], rows: Iterator[list[Text]], left: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _node(node: NodeView, unit: LoadUnit) -> list[Text]:
    style = "red" if node.failing else STYLES.get(node.state, "")
    if node.state is NodeState.STANDBY:
        return [Text(node.name, style), Text(node.state, style)]
    streams = f"{node.streams}" + (f", {node.failing} fail" if node.failing else "")
    loads = (load_text(load, unit) for load in (node.load, node.forecast, node.capacity))
    cells = (node.name, node.state, streams, *loads, "" if node.share is None else f"{100 * node.share:.0f} %")
    return [Text(cell, style) for cell in cells]


def _stream(stream: StreamView, unit: LoadUnit) -> list[Text]:
    style = "red" if stream.failing else "yellow" if stream.notable else ""
    seen = (stream.arrival_rows_per_s, stream.backlog_rows)
    cells = (
        *(stream.node, stream.stream, stream.state_text),
        *(load_text(stream.load, unit), load_text(stream.forecast, unit)),
        *("" if value is None else f"{value:,.0f}" for value in seen),
    )
    return [Text(cell, style) for cell in cells]


def _below(view: FleetView, shown: Sequence[StreamView], problem: str | None) -> Iterator[Text]:
    """Yield the lines below the tables: streams that are not listed, the plan, moves, and what is wrong."""
    listed = {stream.stream for stream in shown}
    others = [stream for stream in view.streams if stream.stream not in listed]
    if others:
        load = load_text(sum(stream.load or 0.0 for stream in others), view.unit)
        remedy = f"./millrace fleet {view.pipeline} --all"
        yield Text(f"and {len(others)} more, {load} {view.unit} in all; list them: {remedy}")
    if view.plan is not None:
        yield Text(f"\nPlan of {view.plan.decided:%H:%M:%S} UTC: {view.plan.sentence}")
        if view.plan.not_done:
            yield Text(view.plan.not_done, "yellow")
    for change in view.moves[:MOST_CHANGES]:
        moves = change.summary(MOST_NAMED)
        yield Text(f"{change.time:%m-%d %H:%M:%S}, version {change.version}: {moves}. {change.reason}")
    yield from map(Text, view.problems)
    wrong = [stream.told for stream in view.streams if stream.told]
    more = [f"and {len(wrong) - MOST_FAILURES} more"] if len(wrong) > MOST_FAILURES else []
    for line in (*filter(None, [problem]), *wrong[:MOST_FAILURES], *more):
        yield Text(line, "red")
