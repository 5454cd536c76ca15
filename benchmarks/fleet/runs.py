"""One run: the streams of a workload through a fleet, placed by one method."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.elastic.cluster import Cluster
from benchmarks.elastic.measure import Cores, core_seconds
from benchmarks.elastic.pipeline import READ_S, Pipeline, wait_until
from benchmarks.fleet.assignments import Ints, needed, overloads
from benchmarks.fleet.machine import kept_running, watched
from benchmarks.fleet.methods import NODE_ROWS_PER_S, Method, bronze, landing, spec_for
from benchmarks.fleet.moves import by_stream, gap_s, moves, nodes_by_period, ordered, ordered_at, others_ratio
from benchmarks.fleet.rows import Copy, differences, done_s, latency_s
from benchmarks.fleet.workloads import Load
from benchmarks.fleet.writer import writing
from millrace.control.batch_history import sound
from millrace.fleet import status
from millrace.fleet.streams import Phase
from millrace.lake.row_codec import batch_from_row
from millrace.lake.store import Lake, literal
from millrace.local.stack.progress import say
from millrace.model.deployment import Deployment, node_name
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import BatchMetrics
from millrace.run_folder import driver_records
from millrace.run_folder.discovery import python_driver

ALL = 100_000
"""Limit on versions, above any run's number."""
START_LIMIT_S = 600.0
"""Longest wait for all streams at first: they start four at a time."""
DRAIN_LIMIT_S = 300.0
"""Longest wait for rows that are missing from the sinks after the load's end; then they count as lost."""
FIGURES = {
    "node_seconds": "node-s",
    "node_seconds_vs_optimum": "ratio",
    "moves_per_period": "moves",
    "overloaded_node_periods": "node-periods",
    "latency_p95_s": "s",
    "rows_lost": "rows",
    "rows_doubled": "rows",
}


@dataclass(frozen=True)
class Run:
    """The measurements of a run.

    Attributes:
        figures: Values of :data:`FIGURES`.
        gaps: Gap of each move, seconds.
        others: Longest batch of other streams during each move, relative to before.
    """

    figures: Mapping[str, float]
    gaps: Sequence[float] = ()
    others: Sequence[float] = ()


def run_load(cluster: Cluster, load: Load, method: Method, name: str) -> Run:
    """Run a load to its end, and compare the sinks with the streams.

    Args:
        cluster: Where drivers run.
        load: How many rows arrive.
        method: Places the streams.
        name: Name of the run, a folder.

    Raises:
        RuntimeError: If a stream does not start.
    """
    home = cluster.home(name)
    first = method.place(load.rates)
    spec = spec_for(home.root, method, first, load.period_s)
    pipeline = Pipeline(cluster, home, spec, first_deployment(spec, load.streams, first))
    copies = copies_of(home.root, load.streams)
    with (
        writing(landing(home.root), load, home.logs / "writer.log") as writer,
        watched(pipeline) as watch,
        running(pipeline, load.streams),
        ExitStack() as planner,
    ):
        if method.planner:
            planner.enter_context(pipeline.controlled("live"))
        begin = writer.begin()
        writer.end()
        drained(copies)
    return measured(pipeline, load, copies, watch.lives(), begin)


def first_deployment(spec: PipelineSpec, streams: Sequence[str], node: Ints) -> Deployment:
    """Return the first version of a fleet, which starts each stream at its node."""
    return replace(spec.first_deployment(), ingest=dict(zip(streams, node.tolist(), strict=True)))


def copies_of(home: Path, streams: Sequence[str]) -> list[Copy]:
    """Return the tables of all streams."""
    return [Copy(landing(home) / stream, bronze(home) / stream) for stream in streams]


@contextmanager
def running(pipeline: Pipeline, streams: Sequence[str]) -> Iterator[None]:
    """Run a fleet until the context ends; enter it when all streams run.

    Raises:
        RuntimeError: If a driver or a stream does not start.
    """
    with pipeline.running(), kept_running(pipeline):
        wait_until(lambda: all_run(pipeline, streams), "all streams run", START_LIMIT_S, READ_S)
        yield


def all_run(pipeline: Pipeline, streams: Sequence[str]) -> bool:
    """Return whether each stream runs on the node that the newest version assigns it to, on a live driver."""
    latest, run_dir = pipeline.latest(), pipeline.home.run / "drivers"
    run = set[tuple[str, str]]()
    for app in latest.entered:
        record, told = driver_records.newest(run_dir, latest.pipeline, app), status.read(run_dir, latest.pipeline, app)
        process = python_driver(record)
        if record is None or told is None or process is None or not process.alive():
            return False
        if (told.generation, told.version) == (record.generation, latest.version):
            run |= {(app, stream.stream) for stream in told.streams if stream.phase is Phase.RUNNING}
    return all((node_name(latest.ingest.get(stream, -1)), stream) in run for stream in streams)


def drained(copies: Sequence[Copy]) -> None:
    """Wait until no row is missing from the sinks, for at most :data:`DRAIN_LIMIT_S`."""
    end, missing = time.monotonic() + DRAIN_LIMIT_S, list(copies)
    while (missing := [copy for copy in missing if copy.missing() > 0]) and time.monotonic() < end:
        time.sleep(READ_S)


def measured(pipeline: Pipeline, load: Load, copies: Sequence[Copy], drivers: Sequence[Cores], begin: float) -> Run:
    """Return the measurements of a run that has ended.

    Args:
        pipeline: The fleet.
        load: Its load.
        copies: The tables of all streams.
        drivers: From the start to the end of each driver.
        begin: When the load began, seconds since 1970.
    """
    steps = [copy.steps() for copy in copies]
    arrived = {stream: source for stream, (source, _) in zip(load.streams, steps, strict=True)}
    batches = by_stream(read_batches(pipeline), load.streams)
    versions = versions_of(pipeline, begin + load.length_s)
    found, moved = differences(copies), [move for move in moves(batches) if move.first.end > begin]
    node = nodes_by_period(batches, load.streams, begin, len(load.rates), load.period_s)
    optimum = float(needed(load.rates, NODE_ROWS_PER_S).sum()) * load.period_s
    used = core_seconds(drivers, begin, max(done_s(steps), begin + load.length_s))
    during = [version for at, version in versions if at >= begin]
    before = [version for at, version in versions if at < begin][-1:]
    figures = {
        "node_seconds": used,
        "node_seconds_vs_optimum": used / optimum,
        "moves_per_period": ordered([*before, *during]) / len(load.rates),
        "overloaded_node_periods": overloads(load.rates, node, NODE_ROWS_PER_S),
        "latency_p95_s": latency_s(steps, 0.95, time.time()),
        "rows_lost": found.lost,
        "rows_doubled": found.doubled,
    }
    ratios = (others_ratio(move, ordered_at(move, versions), batches) for move in moved)
    _tell(load, versions, node, begin)
    return Run(
        figures,
        [gap_s(move, batches[move.stream], arrived[move.stream]) for move in moved],
        [ratio for ratio in ratios if ratio is not None],
    )


def read_batches(pipeline: Pipeline) -> list[BatchMetrics]:
    """Return all batches of a fleet, whichever node ran them."""
    sql = f"select * from batches where pipeline = {literal(pipeline.spec.name)}"  # noqa: S608 - literal()
    return sound(batch_from_row(row) for row in Lake(pipeline.home.lake).rows(sql, "telemetry/batches"))


def versions_of(pipeline: Pipeline, until: float) -> list[tuple[float, Deployment]]:
    """Return the versions that a fleet ran until a time, and when each was made, oldest first; seconds since 1970."""
    stored = reversed(pipeline.tables.deployments.versions(pipeline.spec.name, ALL))
    made = [(at.timestamp(), version) for at, version in stored if version.running]
    return [(at, version) for at, version in made if at < until]


def _tell(load: Load, versions: Sequence[tuple[float, Deployment]], node: Ints, begin: float) -> None:
    """Print the nodes that were used and needed, and when the versions were made."""
    used = " ".join(str(len(np.unique(period))) for period in node)
    say(f"    nodes used:   {used}")
    say(f"    nodes needed: {' '.join(map(str, needed(load.rates, NODE_ROWS_PER_S)))}")
    say(f"    versions at {', '.join(f'{at - begin:.0f}' for at, _ in versions if at > begin)} s")
