"""What calm costs: reconfigurations and bad choices per tuning against core-seconds, by tuner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchmarks.conttune.frontier import Point, points
from benchmarks.conttune.methods import FRONTIERS, room
from benchmarks.conttune.pictures.look import COLOURS, plain
from benchmarks.record import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST_BAD = 0.005
"""Below this value the axis is linear, down to 0."""
LEAST_RECONFIGURATIONS = 0.02
"""The axis starts here at the lowest."""
MARGIN = 1.4
RECONFIGURATIONS_SHOWN = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
BAD_SHOWN = (0, 0.01, 0.1, 1, 10)
WIDEST = 1.1
"""A panel ends at this multiple of the rivals' highest core-seconds: there is nothing to compare beyond."""

Found = Mapping[str, Sequence[Point]]
"""Settings by tuner, from the least headroom to the most."""


def frontiers(records: Sequence[Record], scenarios: Sequence[str]) -> Figure | None:
    """Return one column per scenario, reconfigurations above bad choices; None if nothing was measured.

    Args:
        records: All.
        scenarios: Their names.
    """
    measured = {scenario: found for scenario in scenarios if any((found := _found(records, scenario)).values())}
    if not measured:
        return None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.5 * len(measured) + 0.6, 7.2), layout="constrained")
    panels = figure.subplots(2, len(measured), sharex="col", sharey="row", squeeze=False)
    for column, (scenario, found) in enumerate(measured.items()):
        _column(panels[0, column], panels[1, column], found)
        panels[0, column].set_title(scenario)
    _scales(*panels)
    for axes in panels.flat:
        plain(axes)
    panels[0, 0].set_ylabel("reconfigurations a tuning")
    panels[1, 0].set_ylabel("bad choices a tuning")
    handles = {line.get_label(): line for axes in panels[0] for line in axes.get_lines()}
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=len(handles), frameon=False)
    return figure


def _found(records: Sequence[Record], scenario: str) -> Found:
    return {
        tuner: sorted(points(records, scenario, names), key=lambda point: names.index(point.method))
        for tuner, names in FRONTIERS.items()
    }


def _scales(upper: Sequence[Axes], lower: Sequence[Axes]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    upper[0].set_yscale("log")
    lower[0].set_yscale("symlog", linthresh=LEAST_BAD, linscale=0.4)
    least = min(axes.dataLim.y0 for axes in upper)
    upper[0].set_ylim(max(least, LEAST_RECONFIGURATIONS) / MARGIN, MARGIN * max(axes.dataLim.y1 for axes in upper))
    lower[0].set_ylim(-LEAST_BAD / 4, MARGIN * max(LEAST_BAD, *(axes.dataLim.y1 for axes in lower)))
    for axes, shown in ((upper[0], RECONFIGURATIONS_SHOWN), (lower[0], BAD_SHOWN)):
        axes.yaxis.set_major_locator(FixedLocator(shown))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _column(upper: Axes, lower: Axes, found: Found) -> None:
    for tuner, of_it in found.items():
        for axes, values in ((upper, [p.reconfigurations for p in of_it]), (lower, [p.bad for p in of_it])):
            if of_it:
                cores, colour = [p.cores for p in of_it], COLOURS[tuner]
                axes.plot(cores, values, "o-", label=tuner, color=colour, markersize=4.5, linewidth=1.3)
        for point in of_it:
            _name(upper, tuner, point)
    rivals = [p.cores for tuner, of_it in found.items() for p in of_it if tuner != "flow"]
    if rivals:
        upper.set_xlim(0.96, WIDEST * max(rivals))
    lower.set_xlabel("core-seconds / oracle's")


def _name(axes: Axes, tuner: str, point: Point) -> None:
    """Label a point with its setting: Flink's above, the others' below."""
    axes.annotate(
        room(point.method),
        (point.cores, point.reconfigurations),
        (2, 5) if tuner == "Flink" else (2, -9),
        textcoords="offset points",
        fontsize=6,
        color=COLOURS[tuner],
        annotation_clip=True,
    )
