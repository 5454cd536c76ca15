"""Batch times on a real cluster under skew: partitions placed by load, evenly by number, and by Spark itself.

Only the scenario ``skew`` so far. The quick run takes about seven minutes, the whole half an hour.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.elastic.attempts import Attempts
from benchmarks.elastic.cluster import embedded_cluster
from benchmarks.placement.skew import ALBIC, METHODS, Steady, steady
from benchmarks.record import Record, at_most
from include.local.stack.progress import say

BENCH, SKEW = "placement", "skew"
LIMITS = {"spark_wait_3s": 0.6, "spark_wait_0": 0.95, "even": 1.0}
"""Largest ratio of our batch time to that of each rival."""
ACHIEVED_LIMIT = 1.2
"""Largest ratio of what was achieved to what was planned."""
EVALUATIONS_LIMIT = 2
PERIOD_S = 6.0
Round = dict[str, Steady]
"""What each method came to in one round, by its name."""


def run(quick: bool) -> list[Record]:
    """Measure all methods, round after round. Interrupted, it returns the figures so far.

    Args:
        quick: One round of short measurements.
    """
    rounds, batches = (1, 8) if quick else (3, 20)
    attempts, found = Attempts(BENCH), list[Round]()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # an orderly end, as by Ctrl-C
    try:
        with (
            tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder,
            embedded_cluster(Path(folder).resolve()) as cluster,
        ):
            for _ in range(rounds):
                found.append({})
                for name, method in METHODS.items():
                    work = partial(steady, cluster, method=method, batches=batches, period_s=PERIOD_S)
                    result = attempts.attempt(SKEW, name, work)
                    found[-1] |= {} if result is None else {name: result}
    except KeyboardInterrupt:
        say("interrupted: these are the figures so far")
    return [*skew_records(found), *attempts.failures]


def skew_records(rounds: Sequence[Round]) -> list[Record]:
    """Return the figures of the scenario ``skew``.

    Args:
        rounds: What each method came to, by its name; without those that failed.
    """
    return [*_times(rounds), *_ratios(rounds), *_plans([r[ALBIC] for r in rounds if ALBIC in r])]


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


def _judged(figure: str, value: float, unit: str, limit: float, n: int) -> Record:
    target, holds = at_most(value, limit)
    return Record(BENCH, SKEW, ALBIC, figure, value, unit, n=n, target=target, holds=holds)
