"""Drawings of a fleet in pixels, which a page draws without a script: streams by node, forecast against reality."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from millrace.model.admission import LoadUnit
from millrace.reporting.fleet_plan import PlanView
from millrace.reporting.fleet_reports import NodeState
from millrace.reporting.fleet_view import FleetView, NodeView, StreamView, load_text
from millrace.reporting.history_figure import (
    GAP,
    LEAST_TOP,
    LEFT,
    RIGHT,
    WIDTH,
    Figure,
    Line,
    Panel,
    axis_label,
    axis_ticks,
    axis_times,
)

SIDE, STEP, FIRST_CELL, CELLS = 16, 19, 168, 27
"""Side of a cell, distance to the next, where the first one starts, and cells in a line."""
BAR, BAR_WIDTH, BAR_HEIGHT = 712, 248, 10
"""Start, length at full capacity, and height of a node's bar."""
TOP, ROW, SPACE = 6, 34, 12
"""Space above, least height of a node's row, and the space to the next."""
CHART_HEIGHT = 150
FAILS, MOVES, WAITS = "fails", "moves", "waits"
"""Marks of a cell."""


@dataclass(frozen=True)
class Cell:
    """One stream.

    Attributes:
        x: Its left side.
        y: Its top.
        heat: Square root of its load as a share of the largest stream's, 0..1, so small ones differ too; None if
            unknown.
        mark: ``fails``, ``moves``, ``waits`` if it does not run, or empty.
        title: Its name, state and figures.
    """

    x: float
    y: float
    heat: float | None
    mark: str
    title: str


@dataclass(frozen=True)
class Bar:
    """The load of a node.

    Attributes:
        load: Length of the load now, at most the whole bar's.
        forecast: Position of the load in the next period, at most the bar's end; None if unknown.
        over: Whether either exceeds the capacity.
        text: The figures.
    """

    load: float
    forecast: float | None
    over: bool
    text: str


@dataclass(frozen=True)
class NodeRow:
    """A node with its streams, and its load against its capacity; ``y`` is its top."""

    name: str
    state: NodeState | None
    caption: str
    y: float
    cells: tuple[Cell, ...]
    bar: Bar | None


@dataclass(frozen=True)
class StreamMap:
    """Streams by node.

    Attributes:
        height: Height of the drawing.
        rows: The nodes that run or have streams, and streams without a node last.
        standby: Names of the nodes that are not needed now.
    """

    height: float
    rows: tuple[NodeRow, ...]
    standby: tuple[str, ...]
    width: int = WIDTH
    side: int = SIDE
    bar: int = BAR
    bar_width: int = BAR_WIDTH
    bar_height: int = BAR_HEIGHT


def stream_map(view: FleetView) -> StreamMap:
    """Return a heat map of the streams by node, the largest of each node first."""
    hottest = max((stream.load or 0.0 for stream in view.streams), default=0.0)
    rows, y = [], float(TOP)
    shown = [node for node in view.nodes if node.state is not NodeState.STANDBY or node.streams]
    for node in (*shown, None):
        here = [stream for stream in view.streams if stream.node == (node.name if node else "")]
        if node is None and not here:
            continue
        cells = tuple(_cell(stream, number, y, hottest, view.unit) for number, stream in enumerate(here))
        streams = f"{len(here)} stream{'s' * (len(here) != 1)}"
        if node is None:
            rows.append(NodeRow("no node yet", None, streams, y, cells, None))
        else:
            rows.append(NodeRow(node.name, node.state, f"{node.state}, {streams}", y, cells, _bar(node, view.unit)))
        y += max(ROW, STEP * -(-len(here) // CELLS)) + SPACE
    standby = tuple(node.name for node in view.nodes if node not in shown)
    return StreamMap(y, tuple(rows), standby)


def _cell(stream: StreamView, number: int, y: float, hottest: float, unit: LoadUnit) -> Cell:
    load = "load unknown" if stream.load is None else f"{load_text(stream.load, unit)} {unit}"
    share = "" if stream.share is None else f" ({100 * stream.share:.0f} % of a node)"
    forecast = "" if stream.forecast is None else f", forecast {load_text(stream.forecast, unit)}"
    waits = "" if stream.backlog_rows is None else f", {stream.backlog_rows:,} rows wait"
    mark = MOVES if stream.moves_to is not None else WAITS if stream.notable else ""
    return Cell(
        x=FIRST_CELL + STEP * (number % CELLS),
        y=y + STEP * (number // CELLS),
        heat=None if stream.load is None else math.sqrt(stream.load / hottest) if hottest > 0 else 0.0,
        mark=FAILS if stream.failing else mark,
        title=f"{stream.stream}: {stream.state_text}, {load}{share}{forecast}{waits}",
    )


def _bar(node: NodeView, unit: LoadUnit) -> Bar | None:
    if node.load is None or not node.capacity:
        return None
    load, capacity = node.load / node.capacity, load_text(node.capacity, unit)
    ahead = None if node.forecast is None else node.forecast / node.capacity
    then = "" if ahead is None else f", next {100 * ahead:.0f} %"
    return Bar(
        load=round(BAR_WIDTH * min(load, 1.0), 1),
        forecast=None if ahead is None else round(BAR + BAR_WIDTH * min(ahead, 1.0), 1),
        over=max(load, ahead or 0.0) > 1,
        text=f"{load_text(node.load, unit)} of {capacity} {unit}, {100 * load:.0f} %{then}",
    )


def forecast_figure(plan: PlanView | None) -> Figure | None:
    """Return the load of all streams together in the newest periods, as it came and as it was forecast.

    None without a forecast that has come due.
    """
    if plan is None or not plan.total_came:
        return None
    period, right, bottom = timedelta(seconds=plan.period_s), WIDTH - RIGHT, GAP + CHART_HEIGHT
    since, until = plan.since - len(plan.total_came) * period, plan.since

    def x(time: datetime) -> float:
        return LEFT + (right - LEFT) * ((time - since) / (until - since))

    most = max(*plan.total_came, *plan.total_forecast)
    ticks = axis_ticks(most if most >= LEAST_TOP else 1.0)
    lines = tuple(
        Line(name, _steps(loads, LEFT, right, bottom, CHART_HEIGHT / ticks[-1]))
        for name, loads in (("arrival", plan.total_came), ("forecast", plan.total_forecast))
    )
    heights = tuple((round(bottom - CHART_HEIGHT * tick / ticks[-1], 1), axis_label(tick)) for tick in ticks)
    panel = Panel(f"{plan.unit}, all streams", GAP, bottom, lines, heights)
    return Figure(WIDTH, bottom + GAP, LEFT, right, (panel,), axis_times(since, until, x), ())


def _steps(loads: Sequence[float], left: float, right: float, bottom: float, scale: float) -> str:
    """Return the path of loads of periods of equal length."""
    width, words = (right - left) / len(loads), []
    for number, load in enumerate(loads):
        y = round(bottom - scale * load, 1)
        start = f"M{left:g},{y:g}" if number == 0 else f"V{y:g}"
        words.append(f"{start}H{round(left + width * (number + 1), 1):g}")
    return "".join(words)
