"""Changes of executors under a steady load: their effect on batches, and what happens if executors are killed."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from signal import SIGKILL

from benchmarks.delays_app import Feed, flight_rows
from benchmarks.elastic.cluster import Cluster
from benchmarks.elastic.measure import around
from benchmarks.elastic.methods import LIVE
from benchmarks.elastic.pipeline import READ_S, wait_until
from benchmarks.elastic.runs import make_pipeline, results_of, source_of
from benchmarks.elastic.streams import WAIT_MS
from benchmarks.latency.stages import Change, changes_up
from millrace.local.demo.comparison import compare, settled
from millrace.model.decision import LIVE as T1
from millrace.model.decision import Outcome

RATE_ROWS_PER_S = 15.0
"""Fits on one executor."""
WARM_S = 10.0
REST_S = 6.0
"""Seconds between two changes: some batches on the new executors."""
ROUND = (4, 2, 8, 2)
"""One executor more, back, three more, back."""
KILL_SLOTS = (4, 8, 2)
AFTER_KILL_S = 5.0
"""A batch that starts within this time after a kill still counts as around it."""


@dataclass(frozen=True)
class Changes:
    """Results of forced changes under a steady load.

    Attributes:
        ups: The changes to more executors.
        around: Longest batch around each change, and the batch before it, seconds.
    """

    ups: list[Change]
    around: list[tuple[float, float]]


@dataclass(frozen=True)
class Kills:
    """Results of killing executors in the middle of changes.

    Attributes:
        kills: Number of killed executors.
        longest_batch_s: Longest batch around a kill.
        rows_lost: Rows missing from the results.
        rows_doubled: Rows that the results contain more than once.
    """

    kills: int
    longest_batch_s: float
    rows_lost: int
    rows_doubled: int


def force_changes(cluster: Cluster, name: str, rounds: int, period_s: float) -> Changes:
    """Make the control loop carry out slot requests as if by a person.

    Args:
        cluster: The cluster.
        name: Name of the run, a folder.
        rounds: Number of passes through :data:`ROUND`.
        period_s: Seconds between two reports of the app.
    """
    pipeline = make_pipeline(cluster, name, LIVE, WAIT_MS, period_s)
    wanted = ",".join(map(str, ROUND * rounds))
    feed = Feed(source_of(pipeline.home), flight_rows(1))
    with pipeline.running(), feed.at(_load):
        time.sleep(WARM_S)
        with pipeline.controlled("forced", wanted, f"{REST_S:g}") as controller:
            wait_until(lambda: controller.poll() is not None, "all changes asked for", 60.0 * rounds * len(ROUND))
    batches, changes = pipeline.intervals(), pipeline.tables.reconfigurations.recent(pipeline.spec.name, 1000)
    spans = [
        (c.started.timestamp(), c.ended.timestamp())
        for c in changes
        if c.tier == T1 and c.outcome is Outcome.READY and c.ended
    ]
    found = [around(batches, span) for span in spans]
    return Changes(changes_up(pipeline.spec, pipeline.tables.lake), [pair for pair in found if pair])


def kill_executors(cluster: Cluster, name: str, changes: int, period_s: float, seed: int) -> Kills:
    """Kill an executor at some moment of each change, up and down.

    Args:
        cluster: The cluster.
        name: Name of the run, a folder.
        changes: Number of changes.
        period_s: Seconds between two reports of the app.
        seed: Determines the victims and moments.
    """
    pipeline, chance = make_pipeline(cluster, name, LIVE, WAIT_MS, period_s), random.Random(seed)  # noqa: S311
    source, results, kills = source_of(pipeline.home), results_of(pipeline.home), list[float]()
    feed = Feed(source, flight_rows(1))
    with pipeline.running():
        with feed.at(_load):
            time.sleep(WARM_S)
            for number in range(changes):
                version = pipeline.resize(KILL_SLOTS[number % len(KILL_SLOTS)]).version
                time.sleep(chance.uniform(0.2, 3.0))
                chance.choice(cluster.executors.alive()).process.signal(SIGKILL)
                kills.append(time.time())
                pipeline.await_version(version)
                time.sleep(REST_S)
        feed.finish()
        wait_until(lambda: settled(source, results), "all rows processed", every_s=READ_S)
    found, batches = compare(source, results), pipeline.intervals()
    near = [end - begin for begin, end in batches for kill in kills if end > kill and begin < kill + AFTER_KILL_S]
    return Kills(len(kills), max(near), found.lost, found.doubled)


def _load(_second: float) -> float:
    return RATE_ROWS_PER_S
