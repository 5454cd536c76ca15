"""One run: a load through a pipeline of several apps, sized by one method."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.elastic.cluster import Cluster
from benchmarks.elastic.judging import Cost
from benchmarks.elastic.measure import Cores, core_seconds
from benchmarks.elastic.pipeline import Pipeline
from benchmarks.graph.changes import Version, bad, resized
from benchmarks.graph.lag import AppProgress, Span, Steps, behind, heads, progress, recover_s, waits
from benchmarks.graph.loads import Load
from benchmarks.graph.methods import OURS, Method, specs_for
from benchmarks.graph.workloads import Difference, Workload
from millrace.control.batch_history import read_batches, sound
from millrace.environment.home import Home
from millrace.lake.control_tables import ControlTables
from millrace.lake.source_tables import arrivals
from millrace.lake.store import Lake
from millrace.local.stack.progress import say
from millrace.model.decision import Outcome
from millrace.model.spec import PipelineSpec

ALL = 100_000
"""Limit on versions, above any run's number."""
DRAIN_LIMIT_S = 300.0
"""Longest wait for rows that are missing from the results after the load's end; then they count as lost."""
READ_S = 2.0
FIGURES = {
    "core_seconds": "core-s",
    "behind_s": "s",
    "longest_lag_s": "s",
    "reconfigurations_per_rate": "changes",
    "bad_configurations": "sizes",
    "rows_lost": "rows",
    "rows_doubled": "rows",
}
STEP_FIGURES = {"reconfigurations_of_step": "changes", "recover_s": "s"}


@dataclass(frozen=True)
class Run:
    """The measurements of a run.

    Attributes:
        figures: Values of :data:`FIGURES`, and of :data:`STEP_FIGURES` for a load that is one step.
    """

    figures: dict[str, float]

    @property
    def cost(self) -> Cost:
        """What it cost."""
        return Cost(self.figures["core_seconds"], self.figures["behind_s"])


def run_load(
    cluster: Cluster, workload: Workload, load: Load, method: Method, period_s: float, seed: int, name: str
) -> Run:
    """Run a load to its end, and compare the results with a batch computation.

    Args:
        cluster: The cluster.
        workload: The apps.
        load: How many rows arrive.
        method: The method that sizes the apps.
        period_s: Seconds between two evaluations.
        seed: Seed of the rows.
        name: Name of the run, a folder.

    Raises:
        RuntimeError: If an app does not start.
    """
    home = cluster.home(name)
    data = home.root / "data"
    specs = specs_for(method, workload, home.root, period_s, max(load.rows_per_s))
    pipelines = [Pipeline(cluster, home, spec, spec.first_deployment()) for spec in specs]
    feed, begun = workload.feed(data, load, seed), time.time()
    with running(pipelines), ExitStack() as controllers:
        for pipeline in pipelines if method.tuner else ():
            controllers.enter_context(pipeline.controlled("live"))
        at = play(feed.commit, load.counts)
        feed.finish()
        difference = drained(workload.compare, data)
    apps = _progress(home, specs)
    waited = waits(apps, _tables(apps))
    done = max((end for _, end in waited if end < math.inf), default=time.time())
    goal = specs_for(OURS, workload, home.root, period_s, 0.0)[0].objective.max_lag_s
    held = [Cores(x.begin, x.end, x.cores) for x in cluster.executors.lives() if x.begin >= begun]
    figures = {
        "core_seconds": core_seconds(held, at, done),
        "behind_s": sum(min(end, done) - begin for begin, end in behind(waited, goal)),
        "longest_lag_s": max(min(end, done) - came for came, end in waited),
        "rows_lost": difference.lost,
        "rows_doubled": difference.doubled,
    }
    return Run(figures | _changes(ControlTables(Lake(home.lake)), specs, load, at, behind(waited, goal)))


@contextmanager
def running(pipelines: Sequence[Pipeline]) -> Iterator[None]:
    """Start pipelines of one home at once, and leave nothing of them behind.

    Raises:
        RuntimeError: If an app does not become ready.
    """
    for pipeline in pipelines:
        pipeline.tables.deployments.commit(pipeline.first, None)
    try:
        with ThreadPoolExecutor(len(pipelines)) as pool:
            starts = list(pool.map(lambda pipeline: pipeline.reconciler().reconcile(), pipelines))
        ready = {change.app for changes in starts for change in changes if change.outcome is Outcome.READY}
        for pipeline in pipelines:
            if not ready >= pipeline.first.apps.keys():
                raise RuntimeError(f"{pipeline.spec.name} does not start: {starts}; {pipeline.log()}")
        yield
    finally:
        with ThreadPoolExecutor(len(pipelines)) as pool:
            list(pool.map(lambda pipeline: pipeline.stop(pipeline.reconciler()), pipelines))


def play(commit: Callable[[int], None], counts: Sequence[int]) -> float:
    """Commit rows once per second, and return when that began, seconds since 1970."""
    begin = time.time()
    for second, rows in enumerate(counts, 1):
        commit(rows)
        time.sleep(max(0.0, begin + second - time.time()))
    return begin


def drained(compare: Callable[[Path], Difference], data: Path) -> Difference:
    """Wait until no row is missing from the results, for at most :data:`DRAIN_LIMIT_S`; return the last comparison."""
    end = time.monotonic() + DRAIN_LIMIT_S
    while (found := compare(data)).lost and time.monotonic() < end:
        time.sleep(READ_S)
    return found


def _progress(home: Home, specs: Sequence[PipelineSpec]) -> dict[str, AppProgress]:
    lake, now = Lake(home.lake), datetime.now(UTC)
    named = [(spec.name, app) for spec in specs for app in spec.app_specs]
    return {f"{name}/{app}": progress(sound(read_batches(lake, name, app, now))) for name, app in named}


def _tables(apps: dict[str, AppProgress]) -> dict[str, Steps]:
    """Return the rows committed to each table that an app reads."""
    found = {}
    for name in {name for app in apps.values() for name in app.reads}:
        rows = arrivals(Path(name.removeprefix("path:")))
        at = np.array([time.timestamp() for time in rows["time"].to_pylist()])
        found[name] = Steps(at, np.cumsum(rows["rows"].to_numpy().astype(float)))
    say(f"    followed from {', '.join(Path(head).name for head in heads(apps))} through {len(found)} tables")
    return found


def _changes(
    tables: ControlTables, specs: Sequence[PipelineSpec], load: Load, at: float, spans: Sequence[Span]
) -> dict[str, float]:
    """Return the figures of changes during the load, over all pipelines."""
    made, too_small, changes = list[Version](), 0, [at + change for change in load.changes_s]
    for spec in specs:
        stored = reversed(tables.deployments.versions(spec.name, ALL))
        versions = resized([(made_at.timestamp(), version) for made_at, version in stored if version.running])
        versions = [version for version in versions if version.at < at + load.length_s]
        evaluations = tables.decisions.evaluations(spec.name, None, datetime.now(UTC))
        made += versions
        too_small += bad(versions, evaluations, changes)
        for version in versions:
            say(f"    {version.at - changes[0]:+.0f} s from the first change of the rate: {dict(version.slots)}")
    figures = {"reconfigurations_per_rate": len(made) / len(load.rows_per_s), "bad_configurations": float(too_small)}
    if len(changes) == 2:
        step, back = changes
        figures["reconfigurations_of_step"] = float(sum(step <= version.at < back for version in made))
        figures["recover_s"] = recover_s(spans, step, back)
    return figures
