"""Ours live against its rivals on the same streams, script and embedded cluster, in one run.

Streams: ``streams.py``. Methods: ``fixed_peak`` and ``fixed_mean`` (the fewest slots that keep the lag goal for the
stream, and for its mean, by batch times measured here before), Spark's dynamic allocation by its defaults and with
tuned timeouts (``spark_dra`` is the better of the two), ``batch_ratio`` (SPARK-24815), ours by restart on ``local`` and
on the cluster, and ours live. Without Airflow: a controller process does what the DAG does (``controller.py``); what
Airflow adds, ``bench latency`` measures.

The quick run takes about twelve minutes: all methods once on one short stream. The whole takes about six hours.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.elastic.attempts import Attempts
from benchmarks.elastic.cluster import Cluster, embedded_cluster
from benchmarks.elastic.contest import BENCH, Contest, Rounds, fixed_for
from benchmarks.elastic.methods import LIVE, RIVALS, Method
from benchmarks.elastic.placement import OURS, PLACED, batch_time_s
from benchmarks.elastic.steady import force_changes, kill_executors
from benchmarks.elastic.streams import WAIT_MS, Shape, day, sawtooth, silence, step6, stream
from benchmarks.latency.stages import DECISION_LIMITS, REGISTERED_LIMITS
from benchmarks.record import Record, at_most, percentiles
from benchmarks.stack import memory_at_rest_mb
from millrace.local.stack.progress import say

PLACEMENT = "placement_even"
MAX_LAG_S = 20.0
"""The lag goal of the built-in pipeline."""
PROCESSOR_SHARE = 0.5
"""Peak of the stream that computes, as a share of what the fewest slots reach: more could not make it cheaper."""
LONGEST_BATCH_RATIO_LIMIT, KILL_BATCH_LIMIT_S = 2.0, 15.0
PLACED_LIMITS = {"wait_3s": 0.6, "wait_0": 1.0}
MEMORY_LIMIT_MB = 2200.0
KILLS_A_RUN = 20
"""So that the batches of one run are no older than what telemetry is read back."""


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        period_s: Seconds between two evaluations.
        rounds: Runs of each stream by each method.
        rivals: Those that change their slots.
        streams: Shape and length of each stream of rows that wait, seconds.
        processor_s: Length of the stream of rows that compute, seconds; 0 for none.
        levels: Slots at which batch times are measured.
        change_rounds: How often executors are changed under a steady load.
        kills: Executors killed.
        placed_batches: Batches that are measured after a growth.
    """

    period_s: float
    rounds: int
    rivals: tuple[Method, ...]
    streams: Mapping[str, tuple[Shape, int]]
    processor_s: int
    levels: tuple[int, ...]
    change_rounds: int
    kills: int
    placed_batches: int


WHOLE = Size(
    period_s=6.0,
    rounds=3,
    rivals=RIVALS,
    streams={"day": (day, 240), "step6": (step6, 120), "sawtooth": (sawtooth, 120), "silence": (silence, 100)},
    processor_s=60,
    levels=(2, 4, 6, 8),
    change_rounds=10,
    kills=100,
    placed_batches=20,
)
QUICK = Size(
    period_s=4.0,
    rounds=1,
    rivals=RIVALS[1:],  # dynamic allocation is tuned only
    streams={"step6": (step6, 60)},
    processor_s=0,
    levels=(2, 6, 8),
    change_rounds=1,
    kills=6,
    placed_batches=6,
)


def run(quick: bool) -> list[Record]:
    """Measure all methods; what fails is reported, and the rest goes on. Interrupted, it returns the figures so far.

    Args:
        quick: One short stream, once by each method, and few changes.
    """
    size, attempts, records, rounds = QUICK if quick else WHOLE, Attempts(BENCH), list[Record](), Rounds()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # an orderly end, as by Ctrl-C
    try:
        with (
            tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder,
            embedded_cluster(Path(folder).resolve()) as cluster,
        ):
            records += _changes(cluster, attempts, size)
            records += _placement(cluster, attempts, size)
            records += _kills(cluster, attempts, size)
            _contest(cluster, attempts, size, rounds)
        records += [] if quick else attempts.attempt("stack at rest", LIVE.name, lambda _: _memory()) or []
    except KeyboardInterrupt:
        say("interrupted: these are the figures so far")
    return [*records, *rounds.records(), *_decisions(rounds), *attempts.failures]


def _contest(cluster: Cluster, attempts: Attempts, size: Size, rounds: Rounds) -> None:
    """Run all streams by all methods, round after round."""
    contest = Contest(cluster, attempts, size.period_s, size.levels)
    waiting = contest.batch_times(WAIT_MS)
    streams = [(stream(name, shape, length_s), waiting) for name, (shape, length_s) in size.streams.items()]
    if size.processor_s and (computing := contest.batch_times(0.0)):
        peak = PROCESSOR_SHARE * computing[min(computing)].rows_per_s
        streams.append((stream("processor", day, size.processor_s, peak, wait_ms=0.0), computing))
    for _ in range(size.rounds):
        for one, times in streams:
            contest.run(one, (*fixed_for(one, times, MAX_LAG_S), *size.rivals, LIVE), rounds.begin(one))


def _decisions(rounds: Rounds) -> list[Record]:
    """Return how long each of our Decisions came after its telemetry, in all streams."""
    waits = [wait for runs in rounds.all() if LIVE.name in runs for wait in runs[LIVE.name].decision_waits]
    return percentiles(BENCH, "latency", LIVE.name, "commit_to_decision_p{}_s", waits, DECISION_LIMITS)


def _changes(cluster: Cluster, attempts: Attempts, size: Size) -> list[Record]:
    """Return how long executors take after a Decision, and what a change does to the batches around it."""
    changes = attempts.attempt(
        "latency", LIVE.name, partial(force_changes, cluster, rounds=size.change_rounds, period_s=size.period_s)
    )
    if changes is None:
        return []
    records = []
    for executors, name in ((1, "decision_to_registered_p{}_s"), (3, "decision_to_registered_3_p{}_s")):
        values = [c.registered - c.decision for c in changes.ups if c.executors == executors]
        records += percentiles(BENCH, "latency", LIVE.name, name, values, REGISTERED_LIMITS[executors])
    if changes.around:
        ratio = max(longest / before for longest, before in changes.around)
        records.append(_judged("latency", "longest_batch_ratio", ratio, "ratio", LONGEST_BATCH_RATIO_LIMIT))
        longest = max(longest for longest, _ in changes.around)
        records.append(Record(BENCH, "latency", LIVE.name, "longest_batch_s", longest, "s", n=len(changes.around)))
    return records


def _placement(cluster: Cluster, attempts: Attempts, size: Size) -> list[Record]:
    """Return batch times after a growth, ours against Spark's own placement."""
    times = {}
    for name, method in PLACED.items():
        measured = attempts.attempt(
            PLACEMENT, name, partial(batch_time_s, cluster, method=method, batches=size.placed_batches)
        )
        if measured is not None:
            times[name] = measured
    records = [Record(BENCH, PLACEMENT, name, "batch_time_s", value, "s") for name, value in times.items()]
    for rival, limit in PLACED_LIMITS.items():
        if OURS in times and rival in times:
            ratio = times[OURS] / times[rival]
            records.append(_judged(PLACEMENT, f"batch_time_vs_{rival}", ratio, "ratio", limit))
    return records


def _kills(cluster: Cluster, attempts: Attempts, size: Size) -> list[Record]:
    """Return what killing executors in the middle of changes costs."""
    runs = []
    for seed in range(-(-size.kills // KILLS_A_RUN)):
        changes = min(KILLS_A_RUN, size.kills - seed * KILLS_A_RUN)
        run = attempts.attempt(
            "kills", LIVE.name, partial(kill_executors, cluster, changes=changes, period_s=size.period_s, seed=seed)
        )
        runs += [] if run is None else [run]
    if not runs:
        return []
    n = sum(run.kills for run in runs)
    return [
        _judged("kills", "rows_lost", sum(run.rows_lost for run in runs), "rows", 0, n),
        _judged("kills", "rows_doubled", sum(run.rows_doubled for run in runs), "rows", 0, n),
        _judged("kills", "longest_batch_s", max(run.longest_batch_s for run in runs), "s", KILL_BATCH_LIMIT_S, n),
    ]


def _memory() -> list[Record]:
    """Return the memory of the whole stack at rest, master and worker among it."""
    return [_judged("stack at rest", "rss_mb", memory_at_rest_mb(), "MB", MEMORY_LIMIT_MB)]


def _judged(scenario: str, figure: str, value: float, unit: str, limit: float, n: int = 1) -> Record:
    target, holds = at_most(value, limit)
    return Record(BENCH, scenario, LIVE.name, figure, value, unit, n=n, target=target, holds=holds)
