"""Two stages whose partitions feed each other one to one: the bytes between executors, by placement method.

All executors are on one host here, and Spark reads shuffle files of executors on the same host from disk. A setting
turns that off and makes executors count as hosts; both settings are measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import psutil

from benchmarks.elastic import placement
from benchmarks.elastic.cluster import Cluster
from benchmarks.elastic.methods import Method
from benchmarks.elastic.placement import grown
from benchmarks.placement.skew import at_rest
from millrace.lake.partition_runs import partition_runs
from millrace.model.placement_spec import Placement

SCRIPT = Path(placement.__file__).with_name("scripts") / "paired_state.py"
HOSTS: Mapping[str, str] = {"spark.shuffle.readHostLocalDisk": "false"}
"""With this setting executors count as hosts."""
BUDGET = 32
"""Moves per plan: all partitions of both stages. With eight, one plan gains too little for another to follow."""
REMOTE_S_PER_MB = 1.0
"""Assumed cost of a MB from another executor, as if between zones of a cloud. On one host it costs almost nothing, and
no plan would be worthwhile."""


@dataclass(frozen=True)
class PairRun:
    """A method's result.

    Attributes:
        remote_mb: MB that a batch's stateful stages read from other executors, the median of sampled batches.
        batch_s: Median batch time, seconds.
        cpu_us: Processor time of the executors, microseconds per row.
    """

    remote_mb: float
    batch_s: float
    cpu_us: float


def run_pairs(
    cluster: Cluster, name: str, method: Method, batches: int, period_s: float, conf: Mapping[str, str]
) -> PairRun:
    """Return a method's result after scaling up from one executor to four.

    Args:
        cluster: The cluster.
        name: Name of the run, a folder.
        method: The placement method.
        batches: Number of batches to measure.
        period_s: Seconds between two evaluations.
        conf: Spark settings of the app.
    """
    costs = Placement(options={"remote_s_per_mb": REMOTE_S_PER_MB, "budget": BUDGET})
    with grown(cluster, name, method, script=SCRIPT, conf=conf) as pipeline:
        with at_rest(pipeline, method, period_s, costs) as placed:
            since, before = datetime.now(UTC), _cpu_s(cluster)
            measured = placed.await_batches(batches, since)
            cpu_s = _cpu_s(cluster) - before
        remote: dict[int, float] = {}
        for run in partition_runs(pipeline.tables.lake, pipeline.spec.name, since):
            remote[run.batch_id] = remote.get(run.batch_id, 0.0) + run.remote_bytes / 1e6
    cpu_us = 1e6 * cpu_s / sum(batch.rows_in for batch in measured)
    return PairRun(median(remote.values()), median(batch.duration_s for batch in measured), cpu_us)


def _cpu_s(cluster: Cluster) -> float:
    """Return the processor time of all executors and their descendants so far, including ended ones, seconds."""
    started = [psutil.Process(life.process.pid) for life in cluster.executors.alive()]
    return sum(map(_own_s, (process for root in started for process in (root, *root.children(recursive=True)))))


def _own_s(process: psutil.Process) -> float:
    try:
        spent = process.cpu_times()
    except psutil.NoSuchProcess:  # its parent then has its time
        return 0.0
    return float(spent.user + spent.system + spent.children_user + spent.children_system)
