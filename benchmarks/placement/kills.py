"""Executors killed while state partitions move: what is lost, and how soon load is even again."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGKILL
from typing import Any

from benchmarks.elastic.cluster import Cluster
from benchmarks.elastic.methods import LIVE
from benchmarks.elastic.placement import FEW, MANY
from benchmarks.elastic.scripts.busy_state import ROWS_A_BATCH, hot_partitions, keys_by_partition, keys_under_load
from benchmarks.placement.resizing import evaluations_to_balance
from benchmarks.placement.skew import ALBIC, PARTITIONS, judged, placing, skewed
from millrace.model.decision import Decision
from millrace.model.deployment import EXECUTOR_MEMORY

SAVE = "stateStoreSave"
"""Spark's name of the counting operator."""
MOVING_S = 3.0
"""Carrying out a plan takes at least this long: one to three batches."""


@dataclass(frozen=True)
class KillRun:
    """Results of killing executors in the middle of moves.

    Attributes:
        kills: Number of killed executors.
        evaluations: Most evaluations of settled telemetry until load was even again.
        rows_lost: Rows missing from the counts by key.
        rows_doubled: Rows that the counts include more than once.
    """

    kills: int
    evaluations: int
    rows_lost: int
    rows_doubled: int


def run_kills(cluster: Cluster, name: str, kills: int, period_s: float, seed: int) -> KillRun:
    """Repeatedly move all partitions to other executors, and kill an executor in the meantime.

    To the control loop, killed executors look like victims of the kernel's out-of-memory killer, so a person owns
    executor memory here and the loop cannot raise it. All partitions of an executor move to the next one together, so
    load stays as even as it was.

    Args:
        cluster: The cluster.
        name: Name of the run, a folder.
        kills: Number of kills.
        period_s: Seconds between two evaluations.
        seed: Determines the victims and moments.
    """
    chance, evaluations = random.Random(seed), list[int]()  # noqa: S311 - draws, no secrets
    with skewed(cluster, name, replace(LIVE, name=ALBIC)) as pipeline:
        spec = placing(pipeline.spec, period_s).model_copy(update={"owners": {EXECUTOR_MEMORY: "person"}})
        pipeline = replace(pipeline, spec=spec)
        with pipeline.controlled("live"):
            evaluations_to_balance(pipeline, datetime.now(UTC), MANY)
        for _ in range(kills):
            version = pipeline.place(_rotated(judged(pipeline)[-1])).version
            time.sleep(chance.uniform(0.0, MOVING_S))
            chance.choice(cluster.executors.alive()).process.signal(SIGKILL)
            begun = datetime.now(UTC)
            pipeline.carry_out(version)
            with pipeline.controlled("live"):
                evaluations.append(evaluations_to_balance(pipeline, begun, MANY))
    lost, doubled = _compare(pipeline.home.root / "checkpoint")
    return KillRun(kills, max(evaluations), lost, doubled)


def _rotated(decision: Decision) -> dict[str, tuple[int, ...]]:
    """Return a placement in which each partition is one executor further than measured."""
    groups = None if decision.signals is None else decision.signals.partition_loads
    if groups is None:
        raise RuntimeError("no state partition was measured")
    executors: dict[str, dict[int, int]] = {}
    for operator, partition, executor in zip(groups.operator, groups.partition, groups.executor, strict=True):
        executors.setdefault(operator, {})[partition] = (executor + 1) % (MANY // FEW)
    return {operator: tuple(on[partition] for partition in sorted(on)) for operator, on in executors.items()}


def _compare(checkpoint: Path) -> tuple[int, int]:
    """Return the rows that the counts by key lack, and the surplus rows, compared with the source."""
    from pyspark.sql import SparkSession

    quiet = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    builder = SparkSession.builder.master("local[1]").config("spark.sql.shuffle.partitions", PARTITIONS)
    spark = builder.config(map=quiet).getOrCreate()
    try:
        spark.streams.active  # noqa: B018 - makes the coordinator of state stores, which readers of state ask
        batches = 1 + max(int(commit.name) for commit in (checkpoint / "commits").glob("[0-9]*"))
        expected: dict[int, int] = {}
        keys = keys_under_load(keys_by_partition(spark), hot_partitions(PARTITIONS))
        for value in range(batches * ROWS_A_BATCH):
            key = keys[value % len(keys)]
            expected[key] = expected.get(key, 0) + 1
        found = _counts(spark, checkpoint)
    finally:
        spark.stop()
    every = expected.keys() | found.keys()
    difference = [found.get(key, 0) - expected.get(key, 0) for key in every]
    return -sum(min(d, 0) for d in difference), sum(max(d, 0) for d in difference)


def _counts(spark: Any, checkpoint: Path) -> dict[int, int]:
    operators = spark.read.format("state-metadata").load(str(checkpoint)).collect()
    counting = next(row["operatorId"] for row in operators if row["operatorName"] == SAVE)
    state = spark.read.format("statestore").option("operatorId", counting).load(str(checkpoint))
    return {row[0]: row[1] for row in state.selectExpr("key.*", "value.*").collect()}
