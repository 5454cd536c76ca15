"""What stream metadata is worth: ours on the same streams, with more or less metadata, right and wrong.

Levels:
    nothing     streams are learned from their behaviour
    maximum     the highest rate of each
    paper       what [DRFM] gave DRF-M in Section 6.2, "peak-rates, trend of rates and burstiness period": of the ten
                characteristics the maximum, transition and slope duration, and the period; neither lower levels nor
                durations of the parts nor a phase
    no_phase    everything but the phase
    all         everything, as in the main results
    wrong_30    everything, with rates, durations or the phase off by 30 %, up and down; each figure is from the
                direction that is worse for it

``above_nothing_ratio`` is how much further from the optimum of nodes a level ends than ``nothing`` on the same seed.
``above_nothing_worst`` is the same for the worst seed. Scenarios ``metadata_<workload>`` judge whole runs, scenarios
``metadata_<workload>_late`` only the time after two of the longest cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from benchmarks.drfm.method_run import MethodRun
from benchmarks.drfm.methods import ours
from benchmarks.drfm.scenarios import BENCH, CYCLES, Characteristics, Tell, our_runs, runs
from benchmarks.record import Record, median
from benchmarks.simulation.admission import Score
from benchmarks.simulation.admission_workloads import WORKLOADS

OFF = 0.3
PAPER = ("maximum", "transition", "slope_duration", "period")
RATES = ("minimum", "maximum", "average")
DURATIONS = ("high_duration", "low_duration", "slope_duration")
FIGURES = {"above_optimum_ratio": "ratio", "overloaded_ratio": "ratio", "redirections_per_period": "streams"}
SPANS = {"": 0, "_late": CYCLES}
"""Scenario suffixes, and the period from which they judge."""


def only(*names: str) -> Tell:
    """Return a function that keeps only these characteristics."""
    return lambda stream: {name: value for name, value in _with_period(stream).items() if name in names}


def without(*names: str) -> Tell:
    """Return a function that keeps all but these characteristics."""
    return lambda stream: {name: value for name, value in stream.items() if name not in names}


def scaled(names: Sequence[str], factor: float) -> Tell:
    """Return a function that keeps everything, with some values multiplied by a factor."""
    return lambda stream: {name: value * factor if name in names else value for name, value in stream.items()}


def shifted(cycles: float) -> Tell:
    """Return a function that keeps everything, with the cycle's start delayed by a share of the cycle."""

    def tell(stream: Characteristics) -> Characteristics:
        if "phase" not in stream:
            return stream
        period = _with_period(stream)["period"]
        return {**stream, "phase": (stream["phase"] + cycles * period) % period}

    return tell


def _with_period(stream: Characteristics) -> Characteristics:
    if "high_duration" not in stream:
        return stream
    return {**stream, "period": stream["high_duration"] + stream["low_duration"]}


PARTIAL: Mapping[str, Tell] = {
    "maximum": only("maximum"),
    "paper": only(*PAPER),
    "no_phase": without("phase"),
}
WRONG: Mapping[str, Tell] = {
    "rates_high": scaled(RATES, 1 + OFF),
    "rates_low": scaled(RATES, 1 - OFF),
    "durations_long": scaled(DURATIONS, 1 + OFF),
    "durations_short": scaled(DURATIONS, 1 - OFF),
    "phase_late": shifted(OFF),
    "phase_early": shifted(-OFF),
}


def records(quick: bool, first: int = 0) -> Iterator[Record]:
    """Run every level on every workload.

    Args:
        quick: One seed, fewer periods.
        first: Seed of the first run.
    """
    for workload in WORKLOADS:
        method_runs = {
            "nothing": [our_runs(workload, quick, first, told=False)],
            **{level: [runs(workload, ours(), quick, first, tell=tell)] for level, tell in PARTIAL.items()},
            "all": [our_runs(workload, quick, first)],
            "wrong_30": [runs(workload, ours(), quick, first, tell=tell) for tell in WRONG.values()],
        }
        for ending, since in SPANS.items():
            nothing = [method_run.score(since) for method_run in method_runs["nothing"][0]]
            for level, directions in method_runs.items():
                yield from _judged(f"metadata_{workload}{ending}", level, directions, nothing, since)


def _judged(
    scenario: str, level: str, directions: Sequence[Sequence[MethodRun]], nothing: Sequence[Score], since: int
) -> Iterator[Record]:
    scores = [[method_run.score(since) for method_run in method_runs] for method_runs in directions]
    worst = {name: np.max([[getattr(s, name) for s in row] for row in scores], axis=0) for name in FIGURES}
    for figure, unit in FIGURES.items():
        yield median(BENCH, scenario, level, figure, worst[figure].tolist(), unit)
    if level == "nothing":
        return
    above = (worst["above_optimum_ratio"] - [score.above_optimum_ratio for score in nothing]).tolist()
    yield median(BENCH, scenario, level, "above_nothing_ratio", above, "ratio")
    yield Record(BENCH, scenario, level, "above_nothing_worst", max(above), "ratio", n=len(above))
