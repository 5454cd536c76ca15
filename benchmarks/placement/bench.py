"""Batch times on a real cluster under skew: partitions placed by load, evenly by number, and by Spark itself.

Scenarios: ``skew`` (steady), ``skew_large_state`` (a gigabyte behind a slow store; it takes a JDK), ``drift`` (others
are hot after some batches), ``scale_out`` and ``scale_in`` (two executors more, two fewer), ``kills`` (executors die
while partitions move), ``one_to_one`` (partitions that feed each other, where executors count as hosts, and
``one_to_one_one_host``, where they do not), ``planning`` (a large cluster, on paper) and ``overhead`` (what measuring
costs). The quick run takes about 50 minutes, the whole four hours.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.elastic.attempts import Attempts
from benchmarks.elastic.cluster import Cluster, embedded_cluster
from benchmarks.placement import figures
from benchmarks.placement.drift import Drifted, drifting
from benchmarks.placement.figures import BENCH, DRIFT, IN, KILLS, LARGE, OUT, PAIR_RIVALS, PAIRS, SKEW
from benchmarks.placement.kills import Killed, killed
from benchmarks.placement.large_state import has_compiler, steady_large
from benchmarks.placement.overhead import overhead_records
from benchmarks.placement.pairs import HOSTS, Paired, paired
from benchmarks.placement.planning import planning_records
from benchmarks.placement.resizing import Resized, resized
from benchmarks.placement.skew import ALBIC, EVEN, METHODS, Steady, steady
from benchmarks.record import Record
from include.local.stack.progress import say

PERIOD_S = 6.0
PAIR_CONF: Mapping[str, Mapping[str, str]] = {PAIRS: HOSTS, f"{PAIRS}_one_host": {}}


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        rounds: Runs of each method.
        batches: Batches of each run of ``skew`` and ``one_to_one``.
        phases: How often hot partitions change.
        phase_batches: Batches after which they do.
        seeds: Large clusters that are planned for.
        kills: Executors that are killed in a round.
        overhead_s: For how long the cost of measuring is measured.
    """

    rounds: int
    batches: int
    phases: int
    phase_batches: int
    seeds: int
    kills: int
    overhead_s: float


WHOLE, QUICK = Size(3, 20, 3, 20, 10, 7, 180.0), Size(1, 8, 2, 15, 2, 3, 60.0)


@dataclass(frozen=True)
class Found:
    """What all rounds came to, without parts that failed.

    Attributes:
        skew: Each method of each round, by its name.
        large: The same, where the state is large.
        drift: The same.
        resizes: Two executors more, and two fewer.
        kills: A round each.
        pairs: Each method of each round, by its name, by scenario.
    """

    skew: list[dict[str, Steady]] = field(default_factory=list)
    large: list[dict[str, Steady]] = field(default_factory=list)
    drift: list[dict[str, Drifted]] = field(default_factory=list)
    resizes: list[tuple[Resized, Resized]] = field(default_factory=list)
    kills: list[Killed] = field(default_factory=list)
    pairs: dict[str, list[dict[str, Paired]]] = field(default_factory=lambda: {name: [] for name in PAIR_CONF})

    def records(self) -> list[Record]:
        """Return the figures."""
        return [
            *figures.skew_records(self.skew),
            *figures.large_state_records(self.large),
            *figures.drift_records(self.drift),
            *figures.resize_records(self.resizes),
            *figures.kill_records(self.kills),
            *figures.pair_records(self.pairs),
        ]


def run(quick: bool) -> list[Record]:
    """Measure all methods, round after round. Interrupted, it returns the figures so far.

    Args:
        quick: One round of short measurements.
    """
    size = QUICK if quick else WHOLE
    attempts, found = Attempts(BENCH), Found()
    planned = [*planning_records(BENCH, size.seeds), *overhead_records(size.overhead_s)]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # an orderly end, as by Ctrl-C
    try:
        with (
            tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder,
            embedded_cluster(Path(folder).resolve()) as cluster,
        ):
            for number in range(size.rounds):
                _round(cluster, attempts, size, number, found)
    except KeyboardInterrupt:
        say("interrupted: these are the figures so far")
    return [*found.records(), *planned, *attempts.failures]


def _round(cluster: Cluster, attempts: Attempts, size: Size, number: int, found: Found) -> None:
    found.skew.append({})
    for name, method in METHODS.items():
        result = attempts.attempt(
            SKEW, name, partial(steady, cluster, method=method, batches=size.batches, period_s=PERIOD_S)
        )
        found.skew[-1] |= {} if result is None else {name: result}
    found.large.append({})
    if not has_compiler():
        say(f"  - {LARGE}: skipped, as there is no javac")
    for name in (ALBIC, "spark_wait_0") if has_compiler() else ():
        measure = partial(steady_large, cluster, method=METHODS[name], batches=size.batches, period_s=PERIOD_S)
        large = attempts.attempt(LARGE, name, measure)
        found.large[-1] |= {} if large is None else {name: large}
    found.drift.append({})
    for name in (ALBIC, EVEN):
        span = {"phases": size.phases, "batches": size.phase_batches, "period_s": PERIOD_S}
        drift = attempts.attempt(DRIFT, name, partial(drifting, cluster, method=METHODS[name], **span))
        found.drift[-1] |= {} if drift is None else {name: drift}
    resize = attempts.attempt(f"{OUT}, {IN}", ALBIC, partial(resized, cluster, period_s=PERIOD_S))
    found.resizes.extend([] if resize is None else [resize])
    kill = partial(killed, cluster, kills=size.kills, period_s=PERIOD_S, seed=number)
    dead = attempts.attempt(KILLS, ALBIC, kill)
    found.kills.extend([] if dead is None else [dead])
    for scenario, conf in PAIR_CONF.items():
        found.pairs[scenario].append({})
        for name in (ALBIC, *PAIR_RIVALS):
            measure = partial(paired, cluster, method=METHODS[name], batches=size.batches, period_s=PERIOD_S, conf=conf)
            pair = attempts.attempt(scenario, name, measure)
            found.pairs[scenario][-1] |= {} if pair is None else {name: pair}
