"""Two stages whose partitions feed each other one to one: the bytes that pass between executors, by who places.

All executors are on one host here, and Spark reads such neighbours' shuffle files from disk. It is told not to, so that
executors count as hosts; both settings are measured.
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
from millrace.lake.partitions import partition_runs
from millrace.model.placement_spec import Placement

SCRIPT = Path(placement.__file__).with_name("scripts") / "paired_state.py"
HOSTS: Mapping[str, str] = {"spark.shuffle.readHostLocalDisk": "false"}
"""Executors count as hosts."""
BUDGET = 32
"""Moves of a plan: all partitions of both stages. Of eight, each plan alone gains too little for the next to follow."""
REMOTE_S_PER_MB = 1.0
"""What a MB from another executor is said to cost, as if between zones of a cloud: on one host it costs next to
nothing, and no plan would be worth it."""


@dataclass(frozen=True)
class PairRun:
    """What a method came to.

    Attributes:
        remote_mb: MB that a batch's stateful stages read from other executors, the median of sampled batches.
        batch_s: Median batch time, seconds.
        cpu_us: Processor time of the executors, microseconds a row.
    """

    remote_mb: float
    batch_s: float
    cpu_us: float


def run_pairs(
    cluster: Cluster, name: str, method: Method, batches: int, period_s: float, conf: Mapping[str, str]
) -> PairRun:
    """Return what a method comes to after the growth from one executor to four.

    Args:
        cluster: Where.
        name: Name of the run, a folder.
        method: Who places.
        batches: How many batches are measured.
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
    """Return the processor time of all executors so far, and of what they started, also of what has ended, seconds."""
    started = [psutil.Process(life.process.pid) for life in cluster.executors.alive()]
    return sum(map(_own_s, (process for root in started for process in (root, *root.children(recursive=True)))))


def _own_s(process: psutil.Process) -> float:
    try:
        spent = process.cpu_times()
    except psutil.NoSuchProcess:  # its parent has its time then
        return 0.0
    return float(spent.user + spent.system + spent.children_user + spent.children_system)
