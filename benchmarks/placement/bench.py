"""Batch times on a real cluster under skew: partitions placed by load, evenly by number, and by Spark itself.

Scenarios:
    skew: a steady load, a third of it in 3 of 32 partitions.
    process_wait: the same, placed by load, with longer locality waits.
    skew_large_state: the same with a gigabyte of state behind a slow store. Needs a JDK.
    drift: the hot partitions, drawn at random, change after some batches.
    scale_out, scale_in: two executors more, and two fewer.
    kills: executors die while partitions move.
    one_to_one: partitions that feed each other; executors count as hosts.
    one_to_one_one_host: the same; executors do not count as hosts.
    planning: a large cluster, planned but not run.
    overhead: the cost of measuring.

The quick run takes about an hour, the whole run four.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks.elastic.attempts import Attempts
from benchmarks.elastic.cluster import Cluster, embedded_cluster
from benchmarks.elastic.methods import Method
from benchmarks.placement import figures
from benchmarks.placement.drift import DriftRun, run_drift
from benchmarks.placement.figures import (
    BENCH,
    DRIFT,
    IN,
    KILLS,
    LARGE,
    ONE_HOST,
    OUT,
    PAIR_RIVALS,
    PAIRS,
    RESIZED,
    SKEW,
    WAIT,
)
from benchmarks.placement.kills import KillRun, run_kills
from benchmarks.placement.large_state import has_compiler, run_large_state
from benchmarks.placement.overhead import OVERHEAD, overhead_records
from benchmarks.placement.pairs import HOSTS, PairRun, run_pairs
from benchmarks.placement.planning import PLANNING, planning_records
from benchmarks.placement.resizing import ResizeRun, run_resize
from benchmarks.placement.skew import ALBIC, EVEN, METHODS, WAITS, SteadyRun, run_steady
from benchmarks.record import Record
from benchmarks.seeds import first_run
from millrace.local.stack.progress import say

T = TypeVar("T")

PERIOD_S, DRIFT_PERIOD_S = 30.0, 6.0
"""Seconds between two evaluations: four batches, half of the spec's default; one batch if the load drifts within two
minutes."""
LARGE_METHODS = (ALBIC, "spark_wait_0")


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        rounds: Runs of each method.
        batches: Batches of each run with a steady load.
        phases: Number of changes of the hot partitions.
        phase_batches: Batches between these changes.
        seeds: Large clusters to plan for.
        kills: Executors killed per round.
        overhead_s: Duration of the overhead measurement.
    """

    rounds: int
    batches: int
    phases: int
    phase_batches: int
    seeds: int
    kills: int
    overhead_s: float


WHOLE, QUICK = Size(3, 12, 3, 20, 10, 7, 180.0), Size(1, 8, 2, 15, 2, 3, 60.0)


@dataclass(frozen=True)
class Results:
    """Results of all rounds, without failed parts; by method if there are several.

    Attributes:
        steady: Rounds of each scenario with a steady load.
        drift: Rounds of ``drift``.
        resizes: Rounds of ``scale_out`` and ``scale_in``.
        kills: Rounds of ``kills``.
        pairs: Rounds of each scenario of partitions that feed each other.
    """

    steady: dict[str, list[dict[str, SteadyRun]]] = field(default_factory=dict)
    drift: list[dict[str, DriftRun]] = field(default_factory=list)
    resizes: list[dict[str, tuple[ResizeRun, ResizeRun]]] = field(default_factory=list)
    kills: list[KillRun] = field(default_factory=list)
    pairs: dict[str, list[dict[str, PairRun]]] = field(default_factory=dict)

    def records(self) -> list[Record]:
        """Return the figures."""
        return [
            *figures.skew_records(self.steady.get(SKEW, [])),
            *figures.wait_records(self.steady.get(WAIT, [])),
            *figures.large_state_records(self.steady.get(LARGE, [])),
            *figures.drift_records(self.drift),
            *figures.resize_records(self.resizes),
            *figures.kill_records(self.kills),
            *figures.pair_records(self.pairs),
        ]


@dataclass(frozen=True)
class Round:
    """One run of each method.

    Attributes:
        cluster: The cluster.
        attempts: Runs the parts.
        size: How much is measured.
        number: Number of the round, >= 0: its seed.
        results: Receives the results.
    """

    cluster: Cluster
    attempts: Attempts
    size: Size
    number: int
    results: Results

    def skew(self) -> None:
        """Measure the steady load."""
        self._steady(SKEW, METHODS)

    def process_wait(self) -> None:
        """Measure other locality waits."""
        self._steady(WAIT, WAITS)

    def skew_large_state(self) -> None:
        """Measure the steady load with a large state, if this machine can compile the slow store."""
        if not has_compiler():
            say(f"  - {LARGE}: skipped, as there is no javac")
            return
        run = partial(run_large_state, self.cluster, batches=self.size.batches, period_s=PERIOD_S)
        work = {name: partial(run, method=METHODS[name]) for name in LARGE_METHODS}
        self.results.steady.setdefault(LARGE, []).append(self._attempts(LARGE, work))

    def drift(self) -> None:
        """Measure a drifting load."""
        run = partial(run_drift, self.cluster, phases=self.size.phases, batches=self.size.phase_batches)
        run = partial(run, seed=self.number, period_s=DRIFT_PERIOD_S)
        work = {name: partial(run, method=METHODS[name]) for name in (ALBIC, EVEN)}
        self.results.drift.append(self._attempts(DRIFT, work))

    def resize(self) -> None:
        """Measure executors that come and go."""
        methods = {name: METHODS[name] for name in RESIZED}
        work = {name: partial(run_resize, self.cluster, method=m, period_s=PERIOD_S) for name, m in methods.items()}
        self.results.resizes.append(self._attempts(f"{OUT}, {IN}", work))

    def kills(self) -> None:
        """Measure executors that die."""
        work = partial(run_kills, self.cluster, kills=self.size.kills, period_s=PERIOD_S, seed=self.number)
        run = self.attempts.attempt(KILLS, ALBIC, work)
        self.results.kills.extend([] if run is None else [run])

    def one_to_one(self) -> None:
        """Measure partitions that feed each other; executors count as hosts."""
        self._pairs(PAIRS, HOSTS)

    def one_to_one_one_host(self) -> None:
        """Measure partitions that feed each other; executors do not count as hosts."""
        self._pairs(ONE_HOST, {})

    def _steady(self, scenario: str, methods: Mapping[str, Method]) -> None:
        run = partial(run_steady, self.cluster, batches=self.size.batches, period_s=PERIOD_S)
        work = {name: partial(run, method=method) for name, method in methods.items()}
        self.results.steady.setdefault(scenario, []).append(self._attempts(scenario, work))

    def _pairs(self, scenario: str, conf: Mapping[str, str]) -> None:
        run = partial(run_pairs, self.cluster, batches=self.size.batches, period_s=PERIOD_S, conf=conf)
        work = {name: partial(run, method=METHODS[name]) for name in (ALBIC, *PAIR_RIVALS)}
        self.results.pairs.setdefault(scenario, []).append(self._attempts(scenario, work))

    def _attempts(self, scenario: str, work: Mapping[str, Callable[[str], T]]) -> dict[str, T]:
        """Return each method's result, without failed ones."""
        runs = {name: self.attempts.attempt(scenario, name, run) for name, run in work.items()}
        return {name: run for name, run in runs.items() if run is not None}


ON_CLUSTER: Mapping[str, Callable[[Round], None]] = {
    SKEW: Round.skew,
    WAIT: Round.process_wait,
    LARGE: Round.skew_large_state,
    DRIFT: Round.drift,
    OUT: Round.resize,
    IN: Round.resize,
    KILLS: Round.kills,
    PAIRS: Round.one_to_one,
    ONE_HOST: Round.one_to_one_one_host,
}
SCENARIOS = (*ON_CLUSTER, PLANNING, OVERHEAD)


def run(quick: bool, scenarios: Collection[str] = SCENARIOS, seed: int = 0) -> list[Record]:
    """Measure all methods, round after round. If interrupted, return the figures so far.

    Args:
        quick: One round of short measurements.
        scenarios: Scenarios to measure.
        seed: Draws other hot partitions and victims.
    """
    size, results, attempts = QUICK if quick else WHOLE, Results(), Attempts(BENCH)
    others = list(planning_records(BENCH, size.seeds)) if PLANNING in scenarios else []
    others += overhead_records(size.overhead_s) if OVERHEAD in scenarios else []
    # scale_out and scale_in are one part
    parts = dict.fromkeys(part for name, part in ON_CLUSTER.items() if name in scenarios)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a clean shutdown, as with Ctrl-C
    try:
        with (
            tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder,
            embedded_cluster(Path(folder).resolve()) as cluster,
        ):
            for number in range(first_run(seed), first_run(seed) + (size.rounds if parts else 0)):
                for part in parts:
                    part(Round(cluster, attempts, size, number, results))
    except KeyboardInterrupt:
        say("interrupted: these are the figures so far")
    return [*results.records(), *others, *attempts.failures]
