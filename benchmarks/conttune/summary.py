"""Turn the runs of all methods into records: means with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.conttune.estimate import Estimate, estimate, ratio
from benchmarks.conttune.figures import BENCH, FIGURES
from benchmarks.conttune.work import Outcome
from benchmarks.record import Record

Runs = Mapping[tuple[str, str], Sequence[Mapping[str, float]]]
"""Figures of each run by scenario and method, in the order of the runs' numbers."""


def by_method(outcomes: Sequence[Outcome]) -> Runs:
    """Return the successful runs, by scenario and method."""
    found: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    for outcome in sorted(outcomes, key=lambda o: o.job.run):
        for scenario, figures in outcome.figures.items():
            found.setdefault((scenario, outcome.job.method), []).append(figures)
    return found


def records(runs: Runs) -> list[Record]:
    """Return the mean of every figure; ``n`` is the number of runs behind it."""
    found = []
    for (scenario, method), figures in runs.items():
        for name, figure in FIGURES.items():
            known = estimate(f.get(name, np.nan) for f in figures)
            if known.runs:
                found.append(record(scenario, method, name, known, figure.unit))
    return found


def worst(runs: Runs, figure: str) -> list[Record]:
    """Return the highest value of a figure over all runs, as ``FIGURE_worst``."""
    found = []
    for (scenario, method), figures in runs.items():
        values = [f[figure] for f in figures if figure in f]
        if values:
            known = Estimate(max(values), None, None, len(values))
            found.append(record(scenario, method, f"{figure}_worst", known, FIGURES[figure].unit))
    return found


def against_oracle(runs: Runs, scenario: str, method: str, figure: str) -> list[Record]:
    """Return the ratio of a method's mean to the reactive oracle's on the same runs: ``FIGURE_vs_reactive_oracle``."""
    ours, its = runs.get((scenario, method), ()), runs.get((scenario, "oracle"), ())
    pairs = [(a[figure], b[figure]) for a, b in zip(ours, its, strict=False)]
    if not sum(b for _, b in pairs):
        return []
    known = ratio([a for a, _ in pairs], [b for _, b in pairs])
    return [record(scenario, method, f"{figure}_vs_reactive_oracle", known, "ratio")]


def record(scenario: str, method: str, figure: str, known: Estimate, unit: str) -> Record:
    """Return an estimate as a record."""
    return Record(BENCH, scenario, method, figure, known.value, unit, known.low, known.high, known.runs)
