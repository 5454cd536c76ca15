"""A pipeline's history as SVG paths in pixels, which a page draws without a script."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from millrace.model.decision import Action
from millrace.reporting.history import History, Moment

WIDTH, LEFT, RIGHT, GAP = 960, 64, 12, 26
HEIGHTS = {"rows/s": 170, "slots": 80, "rows waiting": 80}
SPARK_WIDTH, SPARK_HEIGHT = 180, 32
LEAST_TOP = 1e-6
"""If all values of an axis are smaller, it ends at 1."""
Value = Callable[[Moment], float | None]
Axis = Callable[[datetime], float]
CURVES: Mapping[str, Sequence[tuple[str, Value]]] = {
    "rows/s": (("arrival", lambda m: m.arrival), ("capacity", lambda m: m.capacity)),
    "slots": (("slots", lambda m: m.slots),),
    "rows waiting": (("backlog", lambda m: m.backlog),),
}
"""The curves of each panel, by its title."""
STEPS_S = (60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 24 * 3600)
LABELS = 8


@dataclass(frozen=True)
class Line:
    """A curve: its name, which selects its colour, and its path."""

    name: str
    path: str


@dataclass(frozen=True)
class Panel:
    """One axis with its curves.

    Attributes:
        title: Quantity of the axis.
        top: Its upper end.
        bottom: Height of zero.
        lines: Its curves.
        ticks: Heights and labels of its grid.
    """

    title: str
    top: float
    bottom: float
    lines: tuple[Line, ...]
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Figure:
    """A whole picture.

    Attributes:
        width: Its width.
        height: Its height.
        left: Start of the axes.
        right: End of the axes.
        panels: Panels, top to bottom.
        times: Positions and labels on the axis of time (UTC).
        marks: Position, action and text of each Decision.
    """

    width: float
    height: float
    left: float
    right: float
    panels: tuple[Panel, ...]
    times: tuple[tuple[float, str], ...]
    marks: tuple[tuple[float, Action, str], ...]


def figure(history: History) -> Figure:
    """Return the picture of a span."""
    right = WIDTH - RIGHT
    x = _axis(history, LEFT, right)
    panels, top = [], float(GAP)
    for title, lines in CURVES.items():
        panels.append(_panel(history, title, top, lines, x))
        top += HEIGHTS[title] + GAP
    marks = tuple((round(x(m.time), 1), m.action, f"{m.time:%H:%M} {m.sentence}") for m in history.marks)
    times = axis_times(history.since, history.until, x)
    return Figure(WIDTH, top, LEFT, right, tuple(panels), times, marks)


def spark(history: History) -> Figure:
    """Return a small picture of the rates alone, without axes."""
    rates, x = CURVES["rows/s"], _axis(history, 0, SPARK_WIDTH)
    most = _most(history, [value for _, value in rates])
    lines = tuple(Line(name, _path(history, value, x, 0, SPARK_HEIGHT, most)) for name, value in rates)
    panel = Panel("rows/s", 0, SPARK_HEIGHT, lines, ())
    return Figure(SPARK_WIDTH, SPARK_HEIGHT, 0, SPARK_WIDTH, (panel,), (), ())


def _axis(history: History, left: float, right: float) -> Axis:
    """Return a function that places times between two positions."""
    return lambda time: left + (right - left) * ((time - history.since) / (history.until - history.since))


def _panel(
    history: History,
    title: str,
    top: float,
    curves: Sequence[tuple[str, Value]],
    x: Axis,
) -> Panel:
    bottom = top + HEIGHTS[title]
    ticks = axis_ticks(_most(history, [value for _, value in curves]))
    most = ticks[-1]
    steps = title == "slots"
    lines = tuple(Line(name, _path(history, value, x, top, bottom, most, steps=steps)) for name, value in curves)
    heights = tuple((round(bottom - (bottom - top) * tick / most, 1), axis_label(tick)) for tick in ticks)
    return Panel(title, top, bottom, lines, heights)


def _path(
    history: History,
    value: Value,
    x: Axis,
    top: float,
    bottom: float,
    most: float,
    *,
    steps: bool = False,
) -> str:
    """Return a curve's path, interrupted while the value is unknown."""
    words, before = [], None
    for moment in history.moments:
        known = value(moment)
        if known is None:
            before = None
            continue
        near = before is not None and (moment.time - before).total_seconds() <= history.gap_s
        at, height = round(x(moment.time), 1), round(bottom - (bottom - top) * known / most, 1)
        words.append((f"H{at:g}V{height:g}" if steps else f"L{at:g},{height:g}") if near else f"M{at:g},{height:g}")
        before = moment.time
    return "".join(words)


def _most(history: History, values: Sequence[Value]) -> float:
    known = [value(moment) for moment in history.moments for value in values]
    most = max((v for v in known if v is not None), default=0.0)
    return most if most >= LEAST_TOP else 1.0


def axis_ticks(most: float) -> list[float]:
    """Return at most four round numbers from 0 to at least ``most``."""
    rough = most / 3
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [i * step for i in range(math.ceil(most / step - 1e-9) + 1)]


def axis_label(value: float) -> str:
    """Return a value of a grid as short text, for example ``20k``."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


def axis_times(since: datetime, until: datetime, x: Axis) -> tuple[tuple[float, str], ...]:
    """Return the positions of round times between two (UTC), with their labels."""
    span_s = (until - since).total_seconds()
    step_s = next((step for step in STEPS_S if span_s / step <= LABELS), STEPS_S[-1])
    first = math.ceil(since.timestamp() / step_s) * step_s
    form = "%d %b" if step_s >= STEPS_S[-1] else "%H:%M"
    times = [datetime.fromtimestamp(t, UTC) for t in range(first, int(until.timestamp()) + 1, step_s)]
    return tuple((round(x(time), 1), time.strftime(form)) for time in times)
