"""The run as three charts over one time axis: rate and capacity, slots, backlog."""

from __future__ import annotations

import textwrap
from itertools import cycle
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from millrace.local.demo.labels import clock, sizes_text
from millrace.local.demo.timeline import Evaluation, Timeline

GRID_S = 0.5
RATE_WINDOW_S = 4.0
RATE, THROUGHPUT, SLOTS, BACKLOG, QUIET = "#2a78d6", "#1baf7a", "#7d55c7", "#eb6834", "#898781"
GRID, TEXT = "#e1e0d9", "#52514e"
CLEAR = "rgba(0,0,0,0)"
"""Transparent: the page shows through, light or dark. The page also sets the text colour."""
APPS = ("#2a78d6", "#1baf7a", "#eb6834", "#c2487f")
UP, DOWN = "triangle-up", "triangle-down"


def chart(timeline: Timeline, max_lag_s: float) -> go.Figure:
    """Return the chart of a run.

    Args:
        timeline: The run.
        max_lag_s: The objective's latency goal; the backlog is marked while the goal is missed.
    """
    figure = make_subplots(
        rows=3,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.06,
        row_heights=[0.4, 0.28, 0.32],
        subplot_titles=("Rows per second", "Slots", "Rows waiting"),
    )
    times = np.arange(0.0, timeline.length_s + GRID_S, GRID_S)
    hover = {"customdata": [clock(t) for t in times]}
    _rates(figure, timeline, times, hover)
    _slots(figure, timeline, times, hover)
    _backlog(figure, timeline, times, hover, max_lag_s)
    numbered = [evaluation for evaluation in timeline.evaluations if evaluation.changes]
    _decisions(figure, numbered, [evaluation for evaluation in timeline.evaluations if not evaluation.changes])
    _style(figure, timeline)
    return figure


def _rates(figure: go.Figure, timeline: Timeline, times: Any, hover: dict[str, Any]) -> None:
    rate = np.maximum(timeline.rate(times, RATE_WINDOW_S), 0)
    area = {"fill": "tozeroy", "fillcolor": "rgba(42,120,214,0.12)", "line": {"color": RATE, "width": 2}}
    template = "%{customdata}  %{y:.0f} rows/s arrive<extra></extra>"
    figure.add_scatter(x=times, y=rate, name="event rate", hovertemplate=template, **area, **hover, row=1, col=1)
    sustained = throughput_over_time(timeline, times)
    template = "%{customdata}  %{y:.0f} rows/s sustainable<extra></extra>"
    figure.add_scatter(
        x=times, y=sustained, name="sustainable throughput of the slots in use", connectgaps=False,
        line={"color": THROUGHPUT, "width": 2, "shape": "hv"}, hovertemplate=template, **hover, row=1, col=1,
    )  # fmt: skip


def throughput_over_time(timeline: Timeline, times: Any) -> Any:
    """Return the sustainable throughput of the slots in use at each time, as measured at the nearest evaluation.

    NaN if the slots in use were never measured: the chart shows a gap instead of a guess.
    """
    slots, found = timeline.slots(times), np.full(times.shape, np.nan)
    for level in np.unique(timeline.capacity_slots):
        at, value = (
            timeline.capacity_s[timeline.capacity_slots == level],
            timeline.capacity_rows_per_s[timeline.capacity_slots == level],
        )
        nearest = np.abs(times[:, None] - at[None, :]).argmin(axis=1)
        found = np.where(slots == level, value[nearest], found)
    return found


def _slots(figure: go.Figure, timeline: Timeline, times: Any, hover: dict[str, Any]) -> None:
    template = "%{customdata}  %{y:.0f} slots<extra></extra>"
    style = {"color": SLOTS, "width": 2, "shape": "hv"}
    figure.add_scatter(
        x=times, y=timeline.slots(times), name="slots", line=style, fill="tozeroy", fillcolor="rgba(125,85,199,0.10)",
        hovertemplate=template, **hover, row=2, col=1,
    )  # fmt: skip
    for app, colour in zip(timeline.apps if len(timeline.apps) > 1 else (), cycle(APPS)):
        figure.add_scatter(
            x=times, y=timeline.slots(times, app), name=f"slots of {app}", line={**style, "color": colour},
            hovertemplate=f"{app} {template}", **hover, row=2, col=1,
        )  # fmt: skip


def _backlog(figure: go.Figure, timeline: Timeline, times: Any, hover: dict[str, Any], max_lag_s: float) -> None:
    waiting = np.maximum(timeline.arrived(times) - timeline.processed(times), 0)
    oldest = timeline.oldest_waiting_s(times)
    template = "%{customdata}  %{y:,.0f} rows waiting<br>oldest: %{text} s<extra></extra>"
    figure.add_scatter(
        x=times, y=waiting, name="backlog", line={"color": BACKLOG, "width": 2}, fill="tozeroy",
        fillcolor="rgba(235,104,52,0.10)", text=[f"{age:.0f}" for age in oldest], hovertemplate=template,
        **hover, row=3, col=1,
    )  # fmt: skip
    behind = np.where(oldest > max_lag_s, waiting, np.nan)
    if not np.isnan(behind).all():
        figure.add_scatter(
            x=times, y=behind, name=f"behind: oldest row waits over {max_lag_s:g} s", hoverinfo="skip",
            line={"color": "#d03b3b", "width": 4}, row=3, col=1,
        )  # fmt: skip


def _decisions(figure: go.Figure, changes: list[Evaluation], stays: list[Evaluation]) -> None:
    for number, evaluation in enumerate(changes, 1):
        for row in (1, 2, 3):
            figure.add_vline(x=evaluation.time_s, line={"color": QUIET, "width": 1, "dash": "dot"}, row=row, col=1)
        figure.add_annotation(
            x=evaluation.time_s, y=1, xref="x", yref="y domain", yanchor="bottom", showarrow=False,
            text=f"<b>{number}</b>", font={"size": 11, "color": "white"}, bgcolor=SLOTS, borderpad=2,
            hovertext=_wrapped(evaluation),
        )  # fmt: skip
    rising = [(evaluation.after or 0) > (evaluation.before or 0) for evaluation in changes]
    figure.add_scatter(
        x=[c.time_s for c in changes], y=[c.after for c in changes], mode="markers", name="decision: new slots",
        marker={"size": 13, "color": SLOTS, "symbol": [UP if up else DOWN for up in rising],
                "line": {"color": "white", "width": 2}},
        hovertext=[_wrapped(evaluation) for evaluation in changes], hoverinfo="text", row=2, col=1,
    )  # fmt: skip
    figure.add_scatter(
        x=[s.time_s for s in stays], y=[0 for _ in stays], mode="markers", name="evaluation: no change",
        marker={"size": 7, "color": QUIET, "line": {"color": "white", "width": 1}}, cliponaxis=False,
        hovertext=[_wrapped(evaluation) for evaluation in stays], hoverinfo="text", row=2, col=1,
    )  # fmt: skip


def _wrapped(evaluation: Evaluation) -> str:
    change = f"{sizes_text(evaluation.sizes)} slots" if evaluation.changes else "stay"
    sentence = "<br>".join(textwrap.wrap(evaluation.decision.sentence, 70))
    return f"<b>{clock(evaluation.time_s)}  {change}</b><br>{sentence}"


def _style(figure: go.Figure, timeline: Timeline) -> None:
    step = next(s for s in (15, 30, 60, 120, 300, 600, 3600, 86400) if timeline.length_s / s <= 14)
    ticks = np.arange(0, timeline.length_s + 1, step)
    figure.update_xaxes(
        range=[0, timeline.length_s], tickvals=ticks, ticktext=[clock(t) for t in ticks], gridcolor=GRID, zeroline=False
    )
    figure.update_yaxes(rangemode="tozero", gridcolor=GRID, zeroline=False, nticks=6)
    figure.update_layout(
        height=820,
        margin={"l": 60, "r": 20, "t": 50, "b": 40},
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        font={"family": "system-ui, sans-serif", "size": 13, "color": TEXT},
        legend={"orientation": "h", "y": -0.06, "yanchor": "top", "x": 0},
        hoverlabel={"align": "left", "bgcolor": "white"},
        modebar={"bgcolor": CLEAR, "color": QUIET, "activecolor": SLOTS},
    )
    # inside their plots: the space above them is used by the decisions' numbers
    font = {"size": 14, "color": TEXT}
    figure.update_annotations(selector={"font": {"size": 16}}, x=0.01, xanchor="left", yanchor="top", font=font)
