"""Draw plans and joins: where state partitions run, what ingest nodes will get, what join workers keep."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from millrace.model.admission import AdmissionPlan, LoadUnit
from millrace.model.join import JoinSignals
from millrace.model.placement import PlacementPlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = "viridis"

MOST_LINES = 10
"""Nodes that are drawn one by one. If there are more, only the fullest are, with the span of the others."""


def placement_figure(plan: PlacementPlan) -> Figure:
    """Return two heat maps of executors x state partitions, one colour scale, each row with its executor's busy time.

    Partitions are ordered by their planned executor, heaviest first, so the plan shows as blocks.
    """
    from matplotlib.figure import Figure  # no pyplot: no display, no global state

    busy, executors = np.array(plan.busy_s), len(plan.executors)
    order = np.lexsort((-busy, np.array(plan.after)))
    figure = Figure(figsize=(10, 1.6 + 0.55 * 2 * max(2, executors)), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    parts = (
        (above, "before", plan.before, plan.busy_before_s, plan.batch_before_s, ""),
        (below, "after", plan.after, plan.busy_after_s, plan.batch_after_s, f" (at best {plan.bound_s:.1f} s)"),
    )
    image = None
    for axes, word, executor, loads, batch_s, proven in parts:
        cells = np.full((executors, len(busy)), np.nan)
        placed = np.array(executor)[order]
        at = np.flatnonzero(placed >= 0)
        cells[placed[at], at] = busy[order][at]
        image = axes.imshow(cells, aspect="auto", cmap=COLOURS, vmin=0, vmax=float(busy.max()), interpolation="nearest")
        names = [f"executor {name}  {of:.1f} s" for name, of in zip(plan.executors, loads, strict=True)]
        axes.set_yticks(range(len(names)), names)
        title = f"{word}: the stateful part of a batch takes {batch_s:.1f} s{proven}"
        axes.set_title(title, fontsize="medium", loc="left")
    cores = "core" if plan.cores == 1 else f"{plan.cores} cores"
    below.set_xlabel(f"{len(busy)} state partitions; next to each executor: how long a batch keeps its {cores} busy")
    if image is not None:
        figure.colorbar(image, ax=[above, below], label="busy time of a partition in a batch (s)")
    return figure


def admission_figure(plan: AdmissionPlan) -> Figure:
    """Return two charts over time: loads of all streams, forecast and real; loads of each node, and its capacity."""
    from matplotlib.figure import Figure  # no pyplot: no display, no global state

    figure = Figure(figsize=(10, 7), layout="constrained")
    above, below = figure.subplots(2, 1)
    _past(above, plan)
    _ahead(below, plan)
    for axes in (above, below):
        axes.set_ylabel("slots" if plan.unit is LoadUnit.SLOTS else "rows/s of event time")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        # outside the chart: rising lines could cross it anywhere inside
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
        _dates(axes)
    return figure


def _past(axes: Axes, plan: AdmissionPlan) -> None:
    periods = len(plan.total_came)
    edges = _edges(plan, -periods, 0)
    came = "used" if plan.unit is LoadUnit.SLOTS else "arrived"
    axes.stairs(plan.total_came, edges, baseline=None, color="black", label=came)
    axes.stairs(plan.total_forecast, edges, baseline=None, color="tab:orange", label="forecast")
    accuracy = "no forecast yet"
    if plan.total_error is not None and plan.error is not None:
        accuracy = f"forecasts off by {100 * plan.total_error:.0f} % in total, {100 * plan.error:.0f} % by stream"
    title = f"all {plan.streams} streams, forecast a period ahead, newest periods ({periods}): {accuracy}"
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
    axes.set_xlabel("event time (UTC); in parentheses: streams of a node")


def _edges(plan: AdmissionPlan, first: int, last: int) -> NDArray[np.datetime64]:
    """Return the starts of periods, counted from the plan's own, and the end of the last one."""
    begin = np.datetime64(plan.since.astimezone(UTC).replace(tzinfo=None), "s")
    return begin + np.arange(first, last + 1) * np.timedelta64(plan.period_s, "s")


def _dates(axes: Axes) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def join_figure(signals: JoinSignals, workers: int) -> Figure:
    """Return one bar per worker's window, with the capacity and the offered load per worker, now and afterwards.

    Args:
        signals: The join's signals.
        workers: Workers that the decision leads to, >= 1.
    """
    from matplotlib.figure import Figure  # no pyplot: no display, no global state
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.subplots()
    kept = [float("nan") if tuples is None else tuples for tuples in signals.window_tuples]
    axes.bar(range(1, len(kept) + 1), kept, color="tab:blue", alpha=0.7, label="kept")
    axes.axhline(signals.capacity, color="tab:red", label=f"capacity {signals.capacity:,}")
    if signals.offered is not None:
        each, after = signals.offered / signals.workers, signals.offered / workers
        axes.axhline(each, color="black", linestyle=":", label=f"offered {signals.offered:,}: {each:,.0f} a worker")
        if workers != signals.workers:
            axes.axhline(after, color="tab:green", linestyle="--", label=f"on {workers} workers: {after:,.0f}")
    axes.set(xlabel="worker", ylabel="tuples of the window")
    axes.set_xlim(0.5, max(len(kept), workers) + 0.5)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(_title(signals, workers), fontsize="medium", loc="left")
    axes.grid(alpha=0.3, axis="y")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
    return figure


def _title(signals: JoinSignals, workers: int) -> str:
    several = f"{signals.workers} worker{'s' * (signals.workers != 1)}"
    step = several if workers == signals.workers else f"{several} to {workers}"
    return f"{step}, blocks of {signals.block:,}, {100 * signals.shed:.3g} % shed, window of {signals.window_s:,.0f} s"
