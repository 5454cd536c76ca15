"""The picture of an admission: what ingest nodes are expected to get, and how good forecasts were so far."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from include.model.admission import AdmissionPlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINES = 10
"""Nodes that are drawn one by one; of more, the fullest ones are, and the span of the others."""


def admission_figure(plan: AdmissionPlan) -> Figure:
    """Return two charts over time: rates of all streams, foreseen and come; rates of each node with their capacity."""
    from matplotlib.figure import Figure  # no pyplot: no display, no global state

    figure = Figure(figsize=(10, 7), layout="constrained")
    above, below = figure.subplots(2, 1)
    _past(above, plan)
    _ahead(below, plan)
    for axes in (above, below):
        axes.set_ylabel("rows/s of event time")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        # beside the chart: lines that rise would cross it anywhere inside
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
        _dates(axes)
    return figure


def _past(axes: Axes, plan: AdmissionPlan) -> None:
    periods = len(plan.total_came)
    edges = _edges(plan, -periods, 0)
    axes.stairs(plan.total_came, edges, baseline=None, color="black", label="came")
    axes.stairs(plan.total_forecast, edges, baseline=None, color="tab:orange", label="foreseen")
    off = "nothing was foreseen yet"
    if plan.total_error is not None and plan.error is not None:
        off = f"forecasts off by {100 * plan.total_error:.0f} % in total, {100 * plan.error:.0f} % by stream"
    title = f"all {plan.streams} streams, foreseen a period ahead, newest periods ({periods}): {off}"
    axes.set_title(title, fontsize="medium", loc="left")


def _ahead(axes: Axes, plan: AdmissionPlan) -> None:
    edges, used = _edges(plan, 0, plan.ahead), list(plan.used)
    loads = np.array([plan.loads[node] for node in used]).reshape(len(used), plan.ahead)
    fullest = np.argsort(-loads.max(axis=1, initial=0.0), kind="stable")
    drawn, rest = sorted(fullest[:MOST_LINES].tolist()), fullest[MOST_LINES:]
    streams = np.bincount(np.array(plan.after, dtype=np.intp), minlength=len(plan.nodes))
    for at in drawn:
        label = f"{plan.nodes[used[at]]}  ({streams[used[at]]})"
        axes.stairs(loads[at], edges, baseline=None, color=f"C{at % MOST_LINES}", label=label)
    if len(rest):
        highest, lowest = loads[rest].max(axis=0), loads[rest].min(axis=0)
        axes.stairs(highest, edges, baseline=lowest, fill=True, alpha=0.3, color="grey", label=f"{len(rest)} others")
    axes.axhline(plan.capacity, color="black", linestyle="--", label=f"capacity {plan.capacity:.3g}")
    title = f"{plan.split} ingest nodes by {plan.method}: at most {100 * plan.highest_load:.0f} % of a node"
    fits = f"within capacity for {plan.holds} of the next {plan.ahead} periods"
    axes.set_title(f"{title}, {fits}", fontsize="medium", loc="left")
    axes.set_xlabel("event time (UTC); in brackets the streams of a node")


def _edges(plan: AdmissionPlan, first: int, last: int) -> NDArray[np.datetime64]:
    """Return the begins of periods, counted from the plan's own, and the end of the last one."""
    begin = np.datetime64(plan.since.astimezone(UTC).replace(tzinfo=None), "s")
    return begin + np.arange(first, last + 1) * np.timedelta64(plan.period_s, "s")


def _dates(axes: Axes) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
