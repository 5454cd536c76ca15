"""The trajectory of p of some tuners through one run, against the reactive oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.conttune.cases import made
from benchmarks.conttune.methods import METHODS, family
from benchmarks.conttune.pictures.look import COLOURS, plain
from benchmarks.simulation.plant import SimulatedPlant
from benchmarks.simulation.run import Run, drive
from benchmarks.simulation.segment import Segment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TALLEST = 2.2
"""A panel ends at this multiple of the oracle's peak; a number shows anything higher."""


def trajectory(scenario: str, run: int, methods: Sequence[str]) -> Figure:
    """Return one panel per method: the sum of p over time, and when it was too small.

    Args:
        scenario: Its name.
        run: Number of the run.
        methods: Names of the methods.
    """
    from matplotlib.figure import Figure  # no pyplot: no display, no global state

    figure = Figure(figsize=(10, 2.1 * len(methods) + 0.8), layout="constrained")
    panels = figure.subplots(len(methods), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, method in zip(panels, methods, strict=True):
        plant = SimulatedPlant(made(scenario, run), run)
        _panel(axes, method, drive(plant, METHODS[method].make(plant)))
    panels[-1].set_xlabel("minutes")
    shape = made(scenario, run).shape.name
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower right", ncols=2, fontsize=9, frameon=False)
    figure.suptitle(f"Sum of p over the operators of {shape} ({scenario}, run {run}), against the least that suffices")
    return figure


def _panel(axes: Axes, method: str, run: Run) -> None:
    segments = run.segments
    minutes, used = _stairs(segments, [sum(s.parallelism) for s in segments])
    _, least = _stairs(segments, [sum(s.reference) for s in segments])
    colour = COLOURS.get(family(method) or "", "#0072B2")
    axes.fill_between(minutes, least, step="post", color="#bbbbbb", alpha=0.5, linewidth=0, label="least that suffices")
    for i, segment in enumerate(s for s in segments if s.short and not s.down):
        label = "too small" if i == 0 else None
        axes.axvspan(segment.since / 60, segment.until / 60, color="#d62728", alpha=0.18, linewidth=0, label=label)
    axes.step(minutes, used, where="post", color=colour, linewidth=1.4)
    peak = max(least)
    axes.set_ylim(0, TALLEST * peak)
    if max(used) > TALLEST * peak:
        at = minutes[int(np.argmax(used))]
        axes.annotate(f"{max(used)}", (at, TALLEST * peak), (4, -10), textcoords="offset points", fontsize=8)
    changes = [s for s in run.steps if s.reconfigures]
    told = f"{method}: {len(changes)} reconfigurations, {sum(not s.adequate for s in changes)} of them bad"
    axes.set_title(told, loc="left", fontsize=10)
    axes.set_xlim(0, minutes[-1])
    axes.set_ylabel("p")
    plain(axes)


def _stairs(segments: Sequence[Segment], values: Sequence[int]) -> tuple[list[float], list[int]]:
    """Return the start of each value, minutes, and the values, with the end of the last one."""
    return [*(s.since / 60 for s in segments), segments[-1].until / 60], [*values, values[-1]]
