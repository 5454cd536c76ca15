"""Ours live against its rivals on the same streams, script and embedded cluster, in one run.

Streams: ``streams.py``. Methods: fixed sizes, from what the mean rate needs to what the peak needs (by batch times that
are measured first); Spark's dynamic allocation with tuned timeouts; ``batch_ratio`` (SPARK-24815); ``hpa_cpu``, the
rule of Kubernetes' HorizontalPodAutoscaler; ours by restart on ``local`` and on the cluster; and ours live. Airflow
does not run: a controller process does the DAG's work (``controller.py``). ``bench latency`` measures what Airflow
adds.

``modelled`` runs the streams on a model of the app in minutes, with several seeds (``modelled.py``).

Each scenario is one round of at most an hour. Another ``--seed`` is another round with another random walk. With
``--json docs/benchmarks`` each scenario has its own file, so a whole measurement can be interrupted.
"""

from __future__ import annotations

import random
import signal
import tempfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.drfm.gps import file as trace
from benchmarks.elastic import modelled
from benchmarks.elastic.attempts import Attempts
from benchmarks.elastic.cluster import Cluster, embedded_cluster
from benchmarks.elastic.contest import BENCH, Contest, fixed_for, judged
from benchmarks.elastic.contest import records as stream_records
from benchmarks.elastic.methods import LIVE, RIVALS
from benchmarks.elastic.placement import OURS, PLACED, batch_time_s
from benchmarks.elastic.rise import request_s
from benchmarks.elastic.runs import Run
from benchmarks.elastic.scale_up import measure as measure_scale_ups
from benchmarks.elastic.steady import force_changes, kill_executors
from benchmarks.elastic.streams import (
    PEAK_ROWS_PER_S,
    WAIT_MS,
    Shape,
    Stream,
    day,
    random_walk,
    sawtooth,
    silence,
    step6,
    stream,
    taxis,
)
from benchmarks.latency.stages import DECISION_LIMITS, REGISTERED_LIMITS
from benchmarks.record import Record, percentiles
from benchmarks.stack import memory_at_rest_mb
from millrace.local.stack.progress import say

PLACEMENT = "placement_even"
MAX_LAG_S = 30.0
"""The lag goal of the built-in pipeline."""
PROCESSOR_SHARE = 0.5
"""Peak of the compute-bound stream, as a share of what the fewest slots reach: more slots could not be cheaper."""
LONGEST_BATCH_RATIO_LIMIT, KILL_BATCH_LIMIT_S = 2.0, 15.0
SCALE_UP_LIMIT = 1.3
REQUEST_LIMITS_S = {"live": 2.0, "live_without_plan": 5.0}
"""From a rise to the request for more slots, 95th percentile."""
PLACED_LIMITS = {"wait_3s": 0.6, "wait_0": 1.0}
MEMORY_LIMIT_MB = 2200.0
KILLS_A_RUN = 20
"""Keeps the batches of one run within the time that telemetry is read back."""


LATENCY, RISE, SCALE_UP, KILLS, AT_REST = "latency", "rise", "scale_up", "kills", "stack at rest"
STREAMS: Mapping[str, int] = {
    "day": 240,
    "step6": 120,
    "sawtooth": 120,
    "silence": 100,
    "processor": 60,
    "walk": 150,
    "taxis": 240,
}
"""Length of each stream, seconds."""
SCENARIOS = (modelled.SCENARIO, LATENCY, RISE, SCALE_UP, PLACEMENT, KILLS, *STREAMS, AT_REST)
WITHOUT_CLUSTER = {modelled.SCENARIO, AT_REST}
QUICK_SCENARIOS = (LATENCY, PLACEMENT, KILLS, "step6")


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        period_s: Seconds between two evaluations.
        length: Share of each stream's length, (0, 1].
        levels: Slots at which batch times are measured.
        change_rounds: Rounds of executor changes under a steady load.
        rises: Rises of the rate, with and without a plan for more arrival.
        scale_ups: Changes to three more executors under a steady overload.
        kills: Executors killed.
        placed_batches: Batches measured after a scale-up.
    """

    period_s: float
    length: float
    levels: tuple[int, ...]
    change_rounds: int
    rises: int
    scale_ups: int
    kills: int
    placed_batches: int


WHOLE = Size(
    period_s=6.0, length=1.0, levels=(2, 4, 6, 8), change_rounds=10, rises=10, scale_ups=5, kills=100, placed_batches=20
)
QUICK = Size(
    period_s=4.0, length=0.5, levels=(2, 4, 6, 8), change_rounds=1, rises=1, scale_ups=1, kills=6, placed_batches=6
)


def run(quick: bool, scenarios: Collection[str] = SCENARIOS, seed: int = 0, resume: Path | None = None) -> list[Record]:
    """Measure all methods. Report failures and continue with the rest. If interrupted, return the figures so far.

    Args:
        quick: Few changes, and short streams; unless scenarios are named, only :data:`QUICK_SCENARIOS`.
        scenarios: Which of :data:`SCENARIOS`.
        seed: Seed of the random walk and of the kills.
        resume: Folder with the runs of methods that have been measured before; None to measure all.
    """
    size, attempts, records = QUICK if quick else WHOLE, Attempts(BENCH, resume), list[Record]()
    chosen = QUICK_SCENARIOS if quick and scenarios is SCENARIOS else scenarios
    wanted = [scenario for scenario in SCENARIOS if scenario in chosen]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a clean shutdown, as with Ctrl-C
    runs: dict[Stream, dict[str, Run]] = {}
    try:
        if modelled.SCENARIO in wanted:
            records += attempts.attempt(modelled.SCENARIO, LIVE.name, lambda _: _modelled(quick)) or []
        if {*wanted} - WITHOUT_CLUSTER:
            _on_cluster(wanted, attempts, size, seed, records, runs)
        records += (attempts.attempt(AT_REST, LIVE.name, lambda _: _memory()) or []) if AT_REST in wanted else []
    except KeyboardInterrupt:
        say("interrupted: these are the figures so far")
    for one, by_method in runs.items():
        records += [*stream_records(one, [by_method]), *_decisions(one, by_method)]
    return [*records, *attempts.failures]


def _on_cluster(
    wanted: Collection[str],
    attempts: Attempts,
    size: Size,
    seed: int,
    records: list[Record],
    runs: dict[Stream, dict[str, Run]],
) -> None:
    """Measure on one embedded cluster; add figures and runs when they are measured, as others may be interrupted."""
    with (
        tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder,
        embedded_cluster(Path(folder).resolve()) as cluster,
    ):
        records += _changes(cluster, attempts, size) if LATENCY in wanted else []
        records += _rises(cluster, attempts, size) if RISE in wanted else []
        records += _scale_ups(cluster, attempts, size) if SCALE_UP in wanted else []
        records += _placement(cluster, attempts, size) if PLACEMENT in wanted else []
        records += _kills(cluster, attempts, size, seed) if KILLS in wanted else []
        contest = Contest(cluster, attempts, size.period_s, size.levels)
        for name in (s for s in wanted if s in STREAMS):
            _run_stream(contest, name, size, seed, runs)


def _modelled(quick: bool) -> list[Record]:
    """Return the figures of all streams on a modelled app; a walk is another one with each seed."""
    seeds = range(modelled.QUICK_SEEDS if quick else modelled.SEEDS)
    streams: dict[str, list[Stream]] = {}
    for name in (name for name in STREAMS if name != "processor"):
        with suppress(FileNotFoundError):  # the trace of the taxis
            streams[name] = [stream(name, _shape(name, seed), STREAMS[name]) for seed in seeds]
    return list(modelled.records(BENCH, streams, WHOLE.levels, MAX_LAG_S))


def _run_stream(contest: Contest, name: str, size: Size, seed: int, runs: dict[Stream, dict[str, Run]]) -> None:
    """Run a stream with all methods, in an order drawn by the seed: machine effects hit different methods first."""
    wait_ms = 0.0 if name == "processor" else WAIT_MS
    times = contest.batch_times(wait_ms)
    peak = PEAK_ROWS_PER_S
    if name == "processor":
        if not times:
            return
        peak = PROCESSOR_SHARE * times[min(times)].rows_per_s
    try:
        shape = _shape(name, seed)
    except FileNotFoundError:
        say(f"  - {name}: skipped, as there is no {trace().name} in {trace().parent} (MILLRACE_DATA)")
        return
    one = stream(name, shape, round(STREAMS[name] * size.length), peak, wait_ms)
    methods = [*fixed_for(one, times, MAX_LAG_S), *RIVALS, LIVE]
    random.Random(seed).shuffle(methods)  # noqa: S311 - no secret
    contest.run(one, methods, runs.setdefault(one, {}))


def _shape(name: str, seed: int) -> Shape:
    named: Mapping[str, Shape] = {"step6": step6, "sawtooth": sawtooth, "silence": silence}
    if name == "walk":
        return random_walk(seed)
    return taxis() if name == "taxis" else named.get(name, day)


def _decisions(one: Stream, runs: Mapping[str, Run]) -> list[Record]:
    """Return the time from telemetry to each of our Decisions."""
    waits = runs[LIVE.name].decision_waits if LIVE.name in runs else []
    return percentiles(BENCH, one.name, LIVE.name, "commit_to_decision_p{}_s", waits, DECISION_LIMITS)


def _changes(cluster: Cluster, attempts: Attempts, size: Size) -> list[Record]:
    """Return the time from a Decision to its executors, and what a change does to the batches around it."""
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
        records.append(judged("latency", "longest_batch_ratio", ratio, "ratio", LONGEST_BATCH_RATIO_LIMIT))
        longest = max(longest for longest, _ in changes.around)
        records.append(Record(BENCH, "latency", LIVE.name, "longest_batch_s", longest, "s", n=len(changes.around)))
    return records


def _rises(cluster: Cluster, attempts: Attempts, size: Size) -> list[Record]:
    """Return the time from a rise to the request for more slots, with and without a plan, in turns."""
    found: dict[str, list[float]] = {method: [] for method in REQUEST_LIMITS_S}
    for _ in range(size.rises):
        for method, times in found.items():
            work = partial(request_s, cluster, contingencies=method == LIVE.name, period_s=size.period_s)
            measured = attempts.attempt(RISE, method, work)
            times += [] if measured is None else [measured]
    return [
        record
        for method, times in found.items()
        for record in percentiles(
            BENCH, RISE, method, "rise_to_request_p{}_s", times, {50: None, 95: REQUEST_LIMITS_S[method]}
        )
    ]


def _scale_ups(cluster: Cluster, attempts: Attempts, size: Size) -> list[Record]:
    """Return the times of the batches around a scale-up, against full ones of their size."""
    work = partial(measure_scale_ups, cluster, rounds=size.scale_ups, period_s=size.period_s)
    found = attempts.attempt(SCALE_UP, LIVE.name, work)
    if not found:
        return []
    worst = {
        "running_batch_ratio": max(ratios.running for ratios in found),
        "first_batch_ratio": max(ratios.first for ratios in found),
    }
    return [judged(SCALE_UP, figure, value, "ratio", SCALE_UP_LIMIT, len(found)) for figure, value in worst.items()]


def _placement(cluster: Cluster, attempts: Attempts, size: Size) -> list[Record]:
    """Return batch times after a scale-up, ours against Spark's own placement."""
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
            records.append(judged(PLACEMENT, f"batch_time_vs_{rival}", ratio, "ratio", limit))
    return records


def _kills(cluster: Cluster, attempts: Attempts, size: Size, first_seed: int) -> list[Record]:
    """Return the cost of killing executors in the middle of changes."""
    runs = []
    for number in range(-(-size.kills // KILLS_A_RUN)):
        changes, seed = min(KILLS_A_RUN, size.kills - number * KILLS_A_RUN), first_seed + number
        run = attempts.attempt(
            "kills", LIVE.name, partial(kill_executors, cluster, changes=changes, period_s=size.period_s, seed=seed)
        )
        runs += [] if run is None else [run]
    if not runs:
        return []
    n = sum(run.kills for run in runs)
    return [
        judged("kills", "rows_lost", sum(run.rows_lost for run in runs), "rows", 0, n),
        judged("kills", "rows_doubled", sum(run.rows_doubled for run in runs), "rows", 0, n),
        judged("kills", "longest_batch_s", max(run.longest_batch_s for run in runs), "s", KILL_BATCH_LIMIT_S, n),
    ]


def _memory() -> list[Record]:
    """Return the memory of the whole stack at rest, including master and worker."""
    return [judged("stack at rest", "rss_mb", memory_at_rest_mb(), "MB", MEMORY_LIMIT_MB)]
