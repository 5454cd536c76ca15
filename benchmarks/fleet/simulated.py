"""A thousand streams in the simulator of ``bench drfm``: the same workloads, day and planners as live.

A move costs nothing here but the rows that it delays, and a node starts at once. ``bench drfm --scenario scale``
measures the time of a plan for up to a million streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.drfm.method_run import run_method
from benchmarks.drfm.methods import Method, ours, paper
from benchmarks.fleet.workloads import WORKLOADS, Load, load
from benchmarks.record import Record, median
from benchmarks.simulation.admission import SplitNodes
from benchmarks.simulation.admission_workloads import Size, StreamLoad

SCENARIO = "simulated_1000"
STREAMS = 1000
SEEDS, QUICK_SEEDS = 3, 1
PERIODS, QUICK_PERIODS = 200, 60
FIGURES = {
    "above_optimum_ratio": "ratio",
    "redirections_per_period": "streams",
    "overloaded_ratio": "ratio",
    "node_periods": "node-periods",
}


def methods() -> dict[str, Method]:
    """Return the planners; none of them is told the streams' characteristics."""
    return {"horizon": ours(told=False), "drfm": paper("drfm"), "ard": paper("ard")}


def records(bench: str, quick: bool, first: int = 0) -> Iterator[Record]:
    """Run every planner on every workload.

    Args:
        bench: The benchmark's name.
        quick: One seed, fewer periods.
        first: Seed of the first run.
    """
    size = Size(STREAMS, periods=QUICK_PERIODS if quick else PERIODS)
    for workload in WORKLOADS:
        loads = [load(workload, size, seed) for seed in range(first, first + (QUICK_SEEDS if quick else SEEDS))]
        for name, method in methods().items():
            yield from _records(bench, f"{name}_{workload}", method, loads, size)


def _records(bench: str, name: str, method: Method, loads: Sequence[Load], size: Size) -> Iterator[Record]:
    cluster = SplitNodes(size.capacity, size.period_s)
    runs = [run_method(StreamLoad(one.streams, one.rates, {}), method, cluster) for one in loads]
    scores = [run.score() for run in runs]
    for figure, unit in FIGURES.items():
        yield median(bench, SCENARIO, name, figure, [getattr(score, figure) for score in scores], unit)
    yield median(bench, SCENARIO, name, "seconds", [run.seconds for run in runs], "s")
