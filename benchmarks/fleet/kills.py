"""Streams that move all the time while nodes are killed: no row may be lost or doubled."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from signal import SIGKILL

import numpy as np

from benchmarks.elastic.cluster import Cluster
from benchmarks.elastic.pipeline import READ_S, Pipeline, wait_until
from benchmarks.fleet.assignments import even
from benchmarks.fleet.methods import fleet_spec, landing
from benchmarks.fleet.rows import differences
from benchmarks.fleet.runs import all_run, copies_of, drained, first_deployment, running
from benchmarks.fleet.workloads import Load
from benchmarks.fleet.writer import writing
from millrace.model.errors import Conflict
from millrace.run_folder.discovery import LiveDriver, find

NODES, STREAMS = 3, 12
RATE_ROWS_PER_S = 10.0
"""Of each stream."""
WAIT_MS, TRIGGER_MS, PERIOD_S = 10, 5000, 20.0
LONGEST_S = 3600.0
"""Length of the load, which ends with the last move."""
AT_ONCE = 5
"""Streams that a version moves."""
MOVES_A_KILL = 10
KILL_S = 4.0
"""Longest time from a version to the kill that hits its moves: they take about as long."""
CALM_S = 4.0
"""Time between two versions: some batches on the new nodes."""


@dataclass(frozen=True)
class Survived:
    """Results of killing nodes while streams moved.

    Attributes:
        moves: Moves that were ordered.
        kills: Nodes that were killed.
        rows_lost: Rows missing from the sinks.
        rows_doubled: Rows that a sink contains more than once.
    """

    moves: int
    kills: int
    rows_lost: int
    rows_doubled: int


def move_and_kill(cluster: Cluster, name: str, moves: int, seed: int) -> Survived:
    """Move streams between three nodes, a few at a time, and kill a node in the middle of every tenth move.

    Args:
        cluster: Where drivers run.
        name: Name of the run, a folder.
        moves: Number of moves.
        seed: Determines streams, nodes, victims and moments.

    Raises:
        RuntimeError: If a stream does not run again.
    """
    home, chance = cluster.home(name), random.Random(seed)  # noqa: S311 - draws, no secrets
    streams = tuple(f"s{number:05d}" for number in range(STREAMS))
    load = Load(streams, np.full((1, STREAMS), RATE_ROWS_PER_S), LONGEST_S)
    spec = fleet_spec(home.root, NODES, PERIOD_S, {}, wait_ms=WAIT_MS, trigger_ms=TRIGGER_MS, spark_writes=True)
    pipeline = Pipeline(cluster, home, spec, first_deployment(spec, streams, even(STREAMS, NODES)))
    copies, kills, moved = copies_of(home.root, streams), 0, 0
    with writing(landing(home.root), load, home.logs / "writer.log") as writer, running(pipeline, streams):
        writer.begin()
        while moved < moves:
            moved += move(pipeline, chance, min(AT_ONCE, moves - moved))
            if moved >= MOVES_A_KILL * (kills + 1):
                time.sleep(chance.uniform(0.0, KILL_S))  # the moment itself is the fault
                kill(chance.choice(sorted(find(home.run / "drivers", spec.name), key=app_of)))
                kills += 1
            wait_until(lambda: all_run(pipeline, streams), "all streams run again", every_s=READ_S)
            time.sleep(CALM_S)
        writer.end(now=True)
        drained(copies)
    found = differences(copies)
    return Survived(moved, kills, found.lost, found.doubled)


def move(pipeline: Pipeline, chance: random.Random, count: int) -> int:
    """Commit a version that moves some streams, each to another node, and return how many."""
    while True:
        latest = pipeline.latest()
        chosen = chance.sample(sorted(latest.ingest), count)
        ingest = {s: (latest.ingest[s] + chance.randrange(1, NODES)) % NODES for s in chosen}
        content = replace(latest, ingest={**latest.ingest, **ingest}, decision_id=None)
        try:
            pipeline.tables.deployments.commit(content, latest.version)
        except Conflict:
            continue  # a dead node's streams went elsewhere in the meantime
        return count


def app_of(driver: LiveDriver) -> str:
    """Return the name of a driver's node."""
    return driver.arguments.app


def kill(driver: LiveDriver) -> None:
    """Kill every process of a driver at once."""
    for process in driver.processes:
        process.signal(SIGKILL)
