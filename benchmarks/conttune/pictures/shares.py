"""The share of explored and exploited choices of ContTune's Small phase, tuning by tuning."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.conttune.cases import made
from benchmarks.conttune.choices import EXPLOITED, Watched
from benchmarks.conttune.methods import METHODS
from benchmarks.conttune.pictures.look import COLOURS, plain
from benchmarks.simulation.plant import SimulatedPlant
from benchmarks.simulation.run import drive
from millrace_rivals.conttune.tuner import ContTune

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EXPLORERS = ("conttune_0", "conttune_3")
EXPLORED_COLOUR = "#E0A458"


def shares(scenario: str, runs: int) -> Figure:
    """Return bars by tuning: choices by the model (p_acq) and by the linear rule (p_lin), for two alphas.

    Args:
        scenario: Its name; all of its runs have the same number of tunings.
        runs: Number of runs.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5.2), layout="constrained")
    panels = figure.subplots(len(EXPLORERS), 1, sharex=True)
    for axes, method in zip(panels, EXPLORERS, strict=True):
        _panel(axes, method, _counts(scenario, runs, method))
    panels[-1].set_xlabel("tuning (from the dotted line on every rate was seen before)")
    figure.suptitle(f"Choices of ContTune's Small phase ({scenario}, {runs} run{'s' if runs > 1 else ''})")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    return figure


def _panel(axes: Axes, method: str, counts: NDArray[np.int_]) -> None:
    total = counts.sum(axis=0)
    exploited, explored = 100 * counts / np.maximum(total, 1)
    tunings = np.arange(1, counts.shape[1] + 1)
    axes.bar(tunings, exploited, color=COLOURS["ContTune"], label="exploited: p_acq of the model, near an observed p")
    axes.bar(tunings, explored, bottom=exploited, color=EXPLORED_COLOUR, label="explored: p_lin, the linear rule")
    for tuning, n in zip(tunings, total, strict=True):
        axes.text(tuning, 102, str(n), ha="center", fontsize=7, color="#666666")
    axes.axvline((tunings[-1] + 1) / 2, color="#444444", linestyle=":", linewidth=1)
    axes.set(ylabel="% of choices", xlim=(0.4, tunings[-1] + 0.6), ylim=(0, 112), xticks=tunings)
    whole = total.sum()
    share = counts[1].sum() / max(whole, 1)
    axes.set_title(f"{method}: {share:.0%} of {whole} choices explored", loc="left", fontsize=10)
    plain(axes)


def _counts(scenario: str, runs: int, method: str) -> NDArray[np.int_]:
    """Return the numbers of exploited and explored choices in each tuning, shape (2, tunings)."""
    begins = made(scenario, 0).workload.tunings
    counts = np.zeros((2, len(begins)), dtype=int)
    for run in range(runs):
        plant = SimulatedPlant(made(scenario, run), run)
        tuner = METHODS[method].make(plant)
        assert isinstance(tuner, ContTune)
        watched = Watched(tuner)
        drive(plant, watched)
        for at, suggested in watched.choices:
            # a choice at the end of a period belongs to that period's rate
            tuning = bisect_right(begins, at - plant.scenario.period_s / 2) - 1
            for suggestion in suggested.values():
                counts[int(suggestion.means != EXPLOITED), tuning] += 1
    return counts
