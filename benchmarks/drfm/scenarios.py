"""All methods on the paper's workloads, figures as in Sections 6.2 and 6.3 of [DRFM]: 80 streams at load level 8.

A learner without metadata is measured as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from benchmarks.drfm.method_run import MethodRun, run_method
from benchmarks.drfm.methods import METHODS, Method, ours
from benchmarks.record import Record, median
from benchmarks.simulation.admission import Score, SplitNodes
from benchmarks.simulation.admission_workloads import DURATIONS, WORKLOADS, Size, StreamLoad
from millrace.optimizers.drfm.stream_placement import HorizonOptions

Characteristics = Mapping[str, Any]
Tell = Callable[[Characteristics], Characteristics]
"""Maps a stream's true characteristics to its metadata."""
BENCH = "drfm"
SEEDS, QUICK_SEEDS = 5, 1
SIZE, QUICK_SIZE = Size(), Size(periods=130)
CYCLES = 2 * 2 * DURATIONS[1]
"""Periods of two of the longest cycles."""
FIGURES = {
    "redirections_per_period": "streams",
    "buffered_tuples": "tuples",
    "above_optimum_ratio": "ratio",
    "overloaded_ratio": "ratio",
    "latency_p95_s": "s",
    "node_periods": "node-periods",
    "redirection_delay_s": "s",
}


def records(quick: bool, first: int = 0) -> Iterator[Record]:
    """Run every method on every workload.

    Args:
        quick: One seed, fewer periods.
        first: Seed of the first run.
    """
    yield from without_rivals(quick, first)
    for scenario in WORKLOADS:
        for method, make in METHODS.items():
            if method != "horizon":
                yield from summary(scenario, method, runs(scenario, make(), quick, first))


def without_rivals(quick: bool, first: int = 0) -> Iterator[Record]:
    """Run ours on every workload; otherwise like :func:`records`."""
    for scenario in WORKLOADS:
        yield from summary(scenario, "horizon", our_runs(scenario, quick, first))


def without_metadata(quick: bool, first: int = 0) -> Iterator[Record]:
    """Compare ours with and without metadata, after two cycles.

    Args:
        quick: One seed, fewer periods.
        first: Seed of the first run.
    """
    for scenario in ("psfcw", "ptfcw", "sfvar", "tfvar"):
        both = (our_runs(scenario, quick, first), our_runs(scenario, quick, first, told=False))
        late = [[c.score(CYCLES) for c in method_runs] for method_runs in both]
        yield from score_records("no_metadata", f"horizon_{scenario}", late[1])
        over = [b.above_optimum_ratio - a.above_optimum_ratio for a, b in zip(*late, strict=True)]
        yield median(BENCH, "no_metadata", f"horizon_{scenario}", "above_told_ratio", over, "ratio")


@cache
def our_runs(scenario: str, quick: bool, first: int, *, told: bool = True) -> list[MethodRun]:
    """Run ours with all metadata or without; all callers share the same runs.

    Args:
        scenario: The workload.
        quick: One seed, fewer periods.
        first: Seed of the first run.
        told: With all metadata.
    """
    return runs(scenario, ours(told=told), quick, first)


def runs(
    scenario: str, method: Method, quick: bool, first: int, size: Size | None = None, tell: Tell | None = None
) -> list[MethodRun]:
    """Run a method on a workload, once per seed.

    Args:
        scenario: The workload.
        method: The method.
        quick: One seed, fewer periods.
        first: Seed of the first run.
        size: Another size.
        tell: Maps true characteristics to metadata; all of them by default.
    """
    size = size or (QUICK_SIZE if quick else SIZE)
    cluster = SplitNodes(size.capacity, size.period_s)
    loads = (WORKLOADS[scenario](size, seed) for seed in range(first, first + (QUICK_SEEDS if quick else SEEDS)))
    return [run_method(_telling(load, tell) if tell else load, method, cluster) for load in loads]


def _telling(load: StreamLoad, tell: Tell) -> StreamLoad:
    return replace(load, metadata={stream: tell(true) for stream, true in load.metadata.items()})


def summary(scenario: str, method: str, method_runs: Sequence[MethodRun]) -> Iterator[Record]:
    """Yield the figures of a method's runs."""
    yield from score_records(scenario, method, [method_run.score() for method_run in method_runs])
    yield median(BENCH, scenario, method, "seconds", [method_run.seconds for method_run in method_runs], "s")


def score_records(scenario: str, method: str, scores: Sequence[Score]) -> Iterator[Record]:
    """Yield the figures of a method's scores."""
    for figure, unit in FIGURES.items():
        yield median(BENCH, scenario, method, figure, [getattr(s, figure) for s in scores], unit)


def levels(quick: bool, first: int = 0) -> Iterator[Record]:
    """Measure how often CP-SAT proves its plan optimal, and how long it takes, from level 4 to 32.

    Two objectives: the weighting of nodes and redirections that plans normally use, and the fewest nodes at any cost.

    Args:
        quick: Fewer periods, the weighting only.
        first: Seed of the first run.
    """
    options = HorizonOptions(ahead=1, polish=True, effort=2.0)
    methods = {"cpsat": options, "cpsat_fewest_nodes": options.model_copy(update={"move_price": 0.0})}
    for level in (4, 8, 16, 32):
        size = replace(SIZE, level=level, periods=20 if quick else 50)
        for method in ("cpsat",) if quick else methods:
            method_runs = runs("sfvar", ours(methods[method]), True, first, size)
            yield from summary(f"sfvar_level_{level}", method, method_runs)
            unproven = round(float(np.mean([1 - method_run.optimal for method_run in method_runs])), 6)
            yield Record(BENCH, f"sfvar_level_{level}", method, "unproven_ratio", unproven, "ratio", n=size.periods)
