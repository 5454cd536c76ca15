"""Batch times on a real cluster under skew: partitions placed by load, evenly by number, and by Spark itself.

Scenarios: ``skew`` (steady), ``drift`` (others are hot after some batches), ``scale_out`` and ``scale_in`` (two
executors more, two fewer), and ``planning`` (a large cluster, on paper). The quick run takes about 25 minutes, the
whole two hours.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.elastic.attempts import Attempts
from benchmarks.elastic.cluster import embedded_cluster
from benchmarks.placement.drift import Drifted, drifting
from benchmarks.placement.planning import planning_records
from benchmarks.placement.resizing import Resized, resized
from benchmarks.placement.skew import ALBIC, EVEN, METHODS, Steady, steady
from benchmarks.record import Record, at_most
from benchmarks.record import median as median_of
from include.local.stack.progress import say
from optimizers.albic.options import PlacementOptions

BENCH, SKEW = "placement", "skew"
DRIFT, OUT, IN = "drift", "scale_out", "scale_in"
DRIFT_LIMIT, LONGEST_BATCH_LIMIT = 0.75, 2.0
"""Largest ratio of our mean batch time to an even placement's; and of a batch around a change to the one before."""
LIMITS = {"spark_wait_3s": 0.6, "spark_wait_0": 0.95, "even": 1.0}
"""Largest ratio of our batch time to that of each rival."""
ACHIEVED_LIMIT = 1.2
"""Largest ratio of what was achieved to what was planned."""
EVALUATIONS_LIMIT = 2
PERIOD_S = 6.0
BUDGET = PlacementOptions().budget
Round = dict[str, Steady]
"""What each method came to in one round, by its name."""


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        rounds: Runs of each method.
        batches: Batches of each run of ``skew``.
        phases: How often hot partitions change.
        phase_batches: Batches after which they do.
        seeds: Large clusters that are planned for.
    """

    rounds: int
    batches: int
    phases: int
    phase_batches: int
    seeds: int


WHOLE, QUICK = Size(3, 20, 3, 20, 10), Size(1, 8, 2, 15, 2)


def run(quick: bool) -> list[Record]:
    """Measure all methods, round after round. Interrupted, it returns the figures so far.

    Args:
        quick: One round of short measurements.
    """
    size = QUICK if quick else WHOLE
    attempts, found = Attempts(BENCH), list[Round]()
    drifted, resizes = list[dict[str, Drifted]](), list[tuple[Resized, Resized]]()
    planned = list(planning_records(BENCH, size.seeds))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # an orderly end, as by Ctrl-C
    try:
        with (
            tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder,
            embedded_cluster(Path(folder).resolve()) as cluster,
        ):
            for _ in range(size.rounds):
                found.append({})
                for name, method in METHODS.items():
                    work = partial(steady, cluster, method=method, batches=size.batches, period_s=PERIOD_S)
                    result = attempts.attempt(SKEW, name, work)
                    found[-1] |= {} if result is None else {name: result}
                drifted.append({})
                for name in (ALBIC, EVEN):
                    span = {"phases": size.phases, "batches": size.phase_batches, "period_s": PERIOD_S}
                    drift = attempts.attempt(DRIFT, name, partial(drifting, cluster, method=METHODS[name], **span))
                    drifted[-1] |= {} if drift is None else {name: drift}
                resize = attempts.attempt(f"{OUT}, {IN}", ALBIC, partial(resized, cluster, period_s=PERIOD_S))
                resizes += [] if resize is None else [resize]
    except KeyboardInterrupt:
        say("interrupted: these are the figures so far")
    return [
        *skew_records(found),
        *drift_records(drifted),
        *resize_records(resizes),
        *planned,
        *attempts.failures,
    ]


def skew_records(rounds: Sequence[Round]) -> list[Record]:
    """Return the figures of the scenario ``skew``.

    Args:
        rounds: What each method came to, by its name; without those that failed.
    """
    return [*_times(rounds), *_ratios(rounds), *_plans([r[ALBIC] for r in rounds if ALBIC in r])]


def drift_records(rounds: Sequence[Mapping[str, Drifted]]) -> Iterator[Record]:
    """Yield the figures of the scenario ``drift``; the worst round counts.

    Args:
        rounds: What each method came to, by its name; without those that failed.
    """
    for name in (ALBIC, EVEN):
        times = [r[name].batch_s for r in rounds if name in r]
        if times:
            yield median_of(BENCH, DRIFT, name, "mean_batch_time_s", times, "s")
    pairs = [(r[ALBIC], r[EVEN]) for r in rounds if ALBIC in r and EVEN in r]
    if pairs:
        worst = max(ours.batch_s / even.batch_s for ours, even in pairs)
        yield _judged("batch_time_vs_even", worst, "ratio", DRIFT_LIMIT, len(pairs), DRIFT)
    moves = [r[ALBIC].moves for r in rounds if ALBIC in r]
    if moves:
        yield _judged("moves", max(moves), "a plan", BUDGET, len(moves), DRIFT)


def resize_records(rounds: Sequence[tuple[Resized, Resized]]) -> Iterator[Record]:
    """Yield the figures of the scenarios ``scale_out`` and ``scale_in``; the worst round counts.

    Args:
        rounds: Two executors more, and two fewer.
    """
    for scenario, results in zip((OUT, IN), zip(*rounds, strict=True), strict=bool(rounds)):
        evaluations, ratio = max(r.evaluations for r in results), max(r.longest_ratio for r in results)
        yield _judged("evaluations_to_balance", evaluations, "", EVALUATIONS_LIMIT, len(results), scenario)
        yield _judged("longest_batch_ratio", ratio, "ratio", LONGEST_BATCH_LIMIT, len(results), scenario)


def _times(rounds: Sequence[Round]) -> Iterator[Record]:
    for name in METHODS:
        results = [r[name] for r in rounds if name in r]
        if results:
            times, moves = [r.batch_s for r in results], max(r.moves for r in results)
            middle, low, high, n = median(times), min(times), max(times), len(times)
            yield Record(
                BENCH, SKEW, name, "batch_time_s", middle, "s", low if n > 1 else None, high if n > 1 else None, n
            )
            target, holds = at_most(moves, 0) if name == ALBIC else (None, None)
            yield Record(BENCH, SKEW, name, "moves", moves, "a batch", n=n, target=target, holds=holds)


def _ratios(rounds: Sequence[Round]) -> Iterator[Record]:
    """Yield our batch time over each rival's of the same round; the worst round counts."""
    for rival, limit in LIMITS.items():
        ratios = [r[ALBIC].batch_s / r[rival].batch_s for r in rounds if ALBIC in r and rival in r]
        if ratios:
            yield _judged(f"batch_time_vs_{rival.removeprefix('spark_')}", max(ratios), "ratio", limit, len(ratios))


def _plans(results: Sequence[Steady]) -> Iterator[Record]:
    numbers = [r.evaluations for r in results if r.evaluations is not None]
    if numbers:
        yield _judged("evaluations_to_balance", max(numbers), "", EVALUATIONS_LIMIT, len(numbers))
    ratios = [r.achieved_s / r.plan.batch_after_s for r in results if r.plan and r.achieved_s is not None]
    if ratios:
        yield _judged("achieved_vs_planned", max(ratios), "ratio", ACHIEVED_LIMIT, len(ratios))


def _judged(figure: str, value: float, unit: str, limit: float, n: int, scenario: str = SKEW) -> Record:
    target, holds = at_most(value, limit)
    return Record(BENCH, scenario, ALBIC, figure, value, unit, n=n, target=target, holds=holds)
