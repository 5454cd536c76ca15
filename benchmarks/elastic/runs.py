"""One run: a stream through the script, sized by one method."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.delays_app import Feed
from benchmarks.elastic.cluster import Cluster, ExecutorLife
from benchmarks.elastic.judging import Cost
from benchmarks.elastic.measure import Cores, Interval, behind_s, core_seconds, gaps_s, latency_s, longest_lag_s
from benchmarks.elastic.methods import Method, first_deployment, spec_for
from benchmarks.elastic.pipeline import READ_S, Pipeline, wait_until
from benchmarks.elastic.streams import Stream
from benchmarks.latency.stages import waits_for_decisions
from millrace.environment.home import Home
from millrace.local.demo.comparison import compare, settled
from millrace.local.demo.timeline import Timeline, read_timeline
from millrace.model.decision import Outcome
from millrace.model.master import LOCAL

FIGURES = {
    "core_seconds": "core-s",
    "behind_s": "s",
    "longest_lag_s": "s",
    "latency_p95_s": "s",
    "changes": "changes",
    "longest_batch_s": "s",
    "rows_lost": "rows",
    "rows_doubled": "rows",
}


@dataclass(frozen=True)
class Run:
    """The measurements of a run.

    Attributes:
        figures: Values of :data:`FIGURES`.
        gaps: How long input waited between two batches, seconds.
        trigger_s: Trigger interval, seconds: input waits this long even without a change.
        decision_waits: From each evaluation's newest telemetry commit to its Decision's commit, seconds.
    """

    figures: dict[str, float]
    gaps: list[float]
    trigger_s: float
    decision_waits: list[float]

    @property
    def cost(self) -> Cost:
        """What it cost."""
        return Cost(self.figures["core_seconds"], self.figures["behind_s"])


def run_stream(cluster: Cluster, name: str, stream: Stream, method: Method, period_s: float) -> Run:
    """Run a stream to its end, and compare its results with a batch computation.

    Args:
        cluster: The cluster.
        name: Name of the run, a folder.
        stream: The stream.
        method: The method that sizes the app.
        period_s: Seconds between two evaluations.

    Raises:
        RuntimeError: If the app does not start, or does not finish the stream.
    """
    pipeline = make_pipeline(cluster, name, method, stream.wait_ms, period_s)
    source, results = source_of(pipeline.home), results_of(pipeline.home)
    feed, begun = Feed(source, stream.rows()), time.time()
    with pipeline.running(), pipeline.controlled(*method.policy) if method.policy else nullcontext():
        with feed.at(stream.rate):
            time.sleep(len(stream.counts))
        feed.finish()
        wait_until(lambda: settled(source, results), "all rows processed", every_s=READ_S)
    timeline = read_timeline(pipeline.spec, pipeline.tables, source)
    found = compare(source, results)
    at = timeline.begun.timestamp()
    done_s = float(timeline.batch_s[np.searchsorted(timeline.batch_rows, timeline.arrival_rows[-1])])
    lives = [life for life in cluster.executors.lives() if life.begin >= begun]
    held = _spans(timeline) if method.master == LOCAL else _executors(lives, at)
    ran = [(b.time.timestamp() - b.duration_s - at, b.time.timestamp() - at) for b in pipeline.batches()]
    batches: list[Interval] = [(begin, end) for begin, end in ran if end > float(timeline.arrival_s[0])]
    figures = {
        "core_seconds": core_seconds(held, float(timeline.arrival_s[0]), done_s),
        "behind_s": behind_s(timeline, done_s, pipeline.spec.objective.max_lag_s),
        "longest_lag_s": longest_lag_s(timeline, done_s),
        "latency_p95_s": latency_s(timeline, 0.95),
        "changes": _executor_changes(lives, at, done_s) if method.dynamic else _changes(timeline),
        "longest_batch_s": max(end - begin for begin, end in batches),
        "rows_lost": found.lost,
        "rows_doubled": found.doubled,
    }
    waits = waits_for_decisions(pipeline.tables.lake, pipeline.spec.name) if method.policy else []
    return Run(figures, gaps_s(timeline, batches), method.trigger_s, waits)


def make_pipeline(cluster: Cluster, name: str, method: Method, wait_ms: float, period_s: float) -> Pipeline:
    """Make the pipeline of a run; for the parameters see :func:`run_stream`."""
    home = cluster.home(name)
    spec = spec_for(str(home.root), method, wait_ms, period_s)
    return Pipeline(cluster, home, spec, first_deployment(spec, method, cluster.submit_options(home)))


def source_of(home: Home) -> Path:
    """Return the folder of the source table."""
    return home.root / "data" / "flights"


def results_of(home: Home) -> Path:
    """Return the folder of the results table."""
    return home.root / "data" / "delays"


def _executors(lives: Iterable[ExecutorLife], at: float) -> list[Cores]:
    return [Cores(life.begin - at, None if life.end is None else life.end - at, life.cores) for life in lives]


def _spans(timeline: Timeline) -> list[Cores]:
    return [Cores(span.start_s, span.end_s, span.slots) for span in timeline.spans]


def _executor_changes(lives: Iterable[ExecutorLife], at: float, done_s: float) -> int:
    """Return how many executors came or went while rows arrived or waited."""
    moments = [moment - at for life in lives for moment in (life.begin, life.end) if moment is not None]
    return sum(0 < moment < done_s for moment in moments)


def _changes(timeline: Timeline) -> int:
    return sum(c.outcome is Outcome.READY and (c.to_version or 0) > 1 for c in timeline.changes)
