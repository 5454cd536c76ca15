"""Batch times on a real cluster under skew: partitions placed by load, evenly by number, and by Spark itself.

Only the scenario ``skew`` so far. The quick run takes about seven minutes, the whole half an hour.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
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


def run(quick: bool) -> list[Record]:
    """Measure all methods, round after round. Interrupted, it returns the figures so far.

    Args:
        quick: One round of short measurements.
    """
    rounds, batches = (1, 8) if quick else (3, 20)
    attempts, found = Attempts(BENCH), dict[str, list[Steady]]()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # an orderly end, as by Ctrl-C
    try:
        with (
            tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder,
            embedded_cluster(Path(folder).resolve()) as cluster,
        ):
            for _ in range(rounds):
                for name, method in METHODS.items():
                    work = partial(steady, cluster, method=method, batches=batches, period_s=PERIOD_S)
                    result = attempts.attempt(SKEW, name, work)
                    found.setdefault(name, []).extend([] if result is None else [result])
    except KeyboardInterrupt:
        say("interrupted: these are the figures so far")
    return [*_times(found), *_ratios(found), *_plans(found.get(ALBIC, [])), *attempts.failures]


def _times(found: Mapping[str, Sequence[Steady]]) -> Iterator[Record]:
    for name, results in found.items():
        if results:
            times, moves = [r.batch_s for r in results], [r.moves for r in results]
            ends = {"low": min(times), "high": max(times), "n": len(times)}
            yield Record(BENCH, SKEW, name, "batch_time_s", median(times), "s", **ends)  # type: ignore[arg-type]
            target, holds = at_most(max(moves), 0) if name == ALBIC else (None, None)
            yield Record(BENCH, SKEW, name, "moves", max(moves), "a batch", n=len(moves), target=target, holds=holds)


def _ratios(found: Mapping[str, Sequence[Steady]]) -> Iterator[Record]:
    """Yield our batch time over each rival's of the same round; the worst round counts."""
    for rival, limit in LIMITS.items():
        pairs = zip(found.get(ALBIC, []), found.get(rival, []), strict=False)
        ratios = [ours.batch_s / theirs.batch_s for ours, theirs in pairs]
        if ratios:
            name = f"batch_time_vs_{rival.removeprefix('spark_')}"
            target, holds = at_most(max(ratios), limit)
            yield Record(BENCH, SKEW, ALBIC, name, max(ratios), "ratio", n=len(ratios), target=target, holds=holds)


def _plans(results: Sequence[Steady]) -> Iterator[Record]:
    planned = [r for r in results if r.plan is not None and r.evaluations is not None]
    if not planned:
        return
    worst = max(r.evaluations or 0 for r in planned)
    target, holds = at_most(worst, EVALUATIONS_LIMIT)
    yield Record(BENCH, SKEW, ALBIC, "evaluations_to_balance", worst, "", n=len(planned), target=target, holds=holds)
    ratios = [r.achieved_s / r.plan.batch_after_s for r in planned if r.plan and r.achieved_s is not None]
    if ratios:
        target, holds = at_most(max(ratios), ACHIEVED_LIMIT)
        yield Record(
            BENCH, SKEW, ALBIC, "achieved_vs_planned", max(ratios), "ratio", n=len(ratios), target=target, holds=holds
        )
