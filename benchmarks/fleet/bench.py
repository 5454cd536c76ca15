"""Fleets live: the same streams for every way to place them on drivers, each with as many drivers as it asks for.

Workloads (``workloads.py``): 32 Delta tables whose rates follow the paper's workloads over a day that needs one to four
nodes. A node is a driver with a few slots. Each row waits for a real time that leaves the processor free, so a node has
a capacity even on a small machine. Methods (``methods.py``): ours (``horizon``) and the paper's ``drfm`` and ``ard``,
which move streams and start and stop nodes; ``fixed_peak``, nodes for the peak with the streams packed in hindsight;
``even``, nodes for the mean with as many streams on each. A controller process per fleet does the DAG's work, as in
``bench elastic``, and drivers are reconciled all the time, as by the runner.

Figures:
    node_seconds               time that drivers were alive, from the load's beginning until its last row is written
    node_seconds_vs_optimum    the same relative to a lower bound in hindsight: the fewest nodes that could take the
                               rates of each period, with any number of moves
    moves_per_period           moves that the versions ordered
    overloaded_node_periods    node-periods in which more arrived than the share of its slots that a node may use
    latency_p95_s              by rows, from the commit to the stream's table to the commit to its sink
    gap_p50_s, gap_p95_s       by how much moves delayed their streams (``moves.py``)
    others_batch_ratio_p50/95  longest batch of the other streams of both nodes during a move, relative to the usual

The scenario ``kills`` moves streams 200 times and kills 20 nodes; ``simulated_1000`` runs the planners on 1,000 streams
in the simulator. ``bench drfm --scenario scale`` has up to a million streams.

Each scenario takes at most an hour. With ``--json docs/benchmarks`` each has its own file.
"""

from __future__ import annotations

import random
import signal
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.elastic.attempts import Attempts
from benchmarks.elastic.cluster import Cluster
from benchmarks.fleet import simulated
from benchmarks.fleet.kills import move_and_kill
from benchmarks.fleet.machine import without_cluster
from benchmarks.fleet.methods import DRFM, FIXED, METHODS, NODE_ROWS_PER_S, OURS, QUICK_METHODS
from benchmarks.fleet.runs import FIGURES, Run, run_load
from benchmarks.fleet.workloads import WORKLOADS, Load, load
from benchmarks.record import Record, at_most, percentiles
from benchmarks.seeds import first_run
from benchmarks.simulation.admission_workloads import Size
from benchmarks.threads import one_thread
from millrace.local.stack.progress import say, step

BENCH = "fleet"
KILLS = "kills"
STREAMS = 32
"""The micro-batches of 40 streams would keep a core busy: each takes a quarter of a second of processor time."""
SCENARIOS = (*WORKLOADS, KILLS, simulated.SCENARIO)
QUICK_SCENARIOS = ("sfvar", KILLS, simulated.SCENARIO)
NOTHING_LOST = {"rows_lost": 0.0, "rows_doubled": 0.0}
GAP_LIMITS_S = {50: 3.0, 95: 6.0}
OTHERS_LIMITS = {50: None, 95: 2.0}
NODE_SECONDS_LIMITS = {FIXED.name: 0.7, DRFM.name: 1.0}
"""Node-seconds relative to a rival's."""
NOT_ABOVE_DRFM = {"overloaded_node_periods": "node-periods", "moves_per_period": "moves"}
"""Figures that are at most DRF-M's."""


@dataclass(frozen=True)
class Amount:
    """How much is measured.

    Attributes:
        periods: Periods of a load.
        period_s: Length of a period, and time between two evaluations, whole seconds.
        pieces: Fleets that nodes are killed of, one after the other.
        moves: Moves of each of them.
    """

    periods: int
    period_s: float
    pieces: int
    moves: int


WHOLE = Amount(periods=36, period_s=15.0, pieces=4, moves=50)
QUICK = Amount(periods=12, period_s=15.0, pieces=1, moves=20)


def run(quick: bool, scenarios: Collection[str] = SCENARIOS, seed: int = 0, resume: Path | None = None) -> list[Record]:
    """Measure all methods. Report failures and continue with the rest. If interrupted, return the figures so far.

    Args:
        quick: Ours and fixed nodes on a short load; unless scenarios are named, only :data:`QUICK_SCENARIOS`.
        scenarios: Which of :data:`SCENARIOS`.
        seed: Seed of the streams, of the order of the methods, and of the kills.
        resume: Folder with the runs of methods that have been measured before; None to measure all.
    """
    amount, methods, attempts = (
        QUICK if quick else WHOLE,
        list(QUICK_METHODS if quick else METHODS),
        Attempts(BENCH, resume),
    )
    chosen = QUICK_SCENARIOS if quick and scenarios is SCENARIOS else scenarios
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a clean shutdown, as with Ctrl-C
    random.Random(seed).shuffle(methods)  # noqa: S311 - what disturbs the machine hits different methods first
    runs: dict[str, dict[str, Run]] = {}
    found: list[Record] = []
    try:
        with tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder:
            cluster = without_cluster(Path(folder).resolve())
            for scenario in (name for name in WORKLOADS if name in chosen):
                rates = load_of(scenario, amount, seed)
                for method in methods:
                    measured = attempts.attempt(scenario, method.name, partial(run_load, cluster, rates, method), Run)
                    if measured is not None:
                        runs.setdefault(scenario, {})[method.name] = measured
            found += _kills(cluster, attempts, amount, seed) if KILLS in chosen else []
        if simulated.SCENARIO in chosen:
            with step(simulated.SCENARIO), one_thread():
                found += simulated.records(BENCH, quick, first_run(seed))
    except KeyboardInterrupt:
        say("interrupted: these are the figures so far")
    return [*(r for scenario, of in runs.items() for r in records(scenario, of)), *found, *attempts.failures]


def load_of(scenario: str, amount: Amount, seed: int) -> Load:
    """Return the load of a scenario; for the parameters see :class:`Amount` and :mod:`benchmarks.fleet.workloads`."""
    size = Size(STREAMS, periods=amount.periods, capacity=NODE_ROWS_PER_S, period_s=amount.period_s)
    return load(scenario, size, seed)


def records(scenario: str, runs: Mapping[str, Run]) -> list[Record]:
    """Return a scenario's figures by method, and whether ours meets its targets.

    Args:
        scenario: The scenario.
        runs: The runs that did not fail, by method.
    """
    found = []
    for method, measured in runs.items():
        ours = method == OURS.name
        for figure, unit in FIGURES.items():
            limit = NOTHING_LOST.get(figure) if ours else None
            found.append(_record(scenario, method, figure, measured.figures[figure], unit, limit))
        gaps, others = (GAP_LIMITS_S, OTHERS_LIMITS) if ours else ({50: None, 95: None}, {50: None, 95: None})
        found += percentiles(BENCH, scenario, method, "gap_p{}_s", measured.gaps, gaps)
        ratios = percentiles(BENCH, scenario, method, "others_batch_ratio_p{}", measured.others, others)
        found += [replace(record, unit="ratio") for record in ratios]
    return found + (_compared(scenario, runs) if OURS.name in runs else [])


def _compared(scenario: str, runs: Mapping[str, Run]) -> list[Record]:
    """Return figures of ours relative to rivals'."""
    ours, found = runs[OURS.name].figures, []
    for rival, limit in NODE_SECONDS_LIMITS.items():
        if rival in runs:
            ratio = ours["node_seconds"] / runs[rival].figures["node_seconds"]
            found.append(_record(scenario, OURS.name, f"node_seconds_vs_{rival}", ratio, "ratio", limit))
    if DRFM.name in runs:
        for figure, unit in NOT_ABOVE_DRFM.items():
            above = ours[figure] - runs[DRFM.name].figures[figure]
            found.append(_record(scenario, OURS.name, f"{figure}_above_drfm", above, unit, 0.0))
    return found


def _kills(cluster: Cluster, attempts: Attempts, amount: Amount, first_seed: int) -> list[Record]:
    """Return the rows that killing nodes in the middle of moves has cost."""
    runs = []
    for number in range(amount.pieces):
        work = partial(move_and_kill, cluster, moves=amount.moves, seed=first_run(first_seed) + number)
        run = attempts.attempt(KILLS, OURS.name, work)
        runs += [] if run is None else [run]
    if not runs:
        return []
    figures = {
        "rows_lost": sum(run.rows_lost for run in runs),
        "rows_doubled": sum(run.rows_doubled for run in runs),
    }
    n = sum(run.kills for run in runs)
    judged = [
        _record(KILLS, OURS.name, figure, value, "rows", NOTHING_LOST[figure]) for figure, value in figures.items()
    ]
    moved = _record(KILLS, OURS.name, "moves", sum(run.moves for run in runs), "moves", None)
    return [replace(record, n=n) for record in (*judged, moved)]


def _record(scenario: str, method: str, figure: str, value: float, unit: str, limit: float | None) -> Record:
    target, holds = (None, None) if limit is None else at_most(value, limit)
    return Record(BENCH, scenario, method, figure, value, unit, target=target, holds=holds)
