"""What more executors cost the batches around them, if every batch is full and the change comes in mid-batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median

from benchmarks.delays_app import Feed, flight_rows
from benchmarks.elastic.cluster import Cluster
from benchmarks.elastic.methods import LIVE
from benchmarks.elastic.runs import make_pipeline, source_of
from benchmarks.elastic.streams import WAIT_MS
from millrace.model.telemetry import BatchMetrics

ROWS_PER_S = 22.0
"""More than the fewest slots can process: all batches are full, so their times can be compared."""
FEW, MANY = 2, 8
BATCHES = 6
"""Batches per size; the first ones after a change are compared with the last :data:`WARM` of them."""
WARM = 3
MOST_S = 120.0
"""Longest time to wait for a batch."""


@dataclass(frozen=True)
class ScaleUp:
    """One change to more executors.

    Attributes:
        asked: When the change was committed, seconds since 1970.
        ready: When it had been carried out.
    """

    asked: float
    ready: float


@dataclass(frozen=True)
class Ratios:
    """Batch times around a change, relative to full batches of the same size long before or after it.

    Attributes:
        running: The longest batch that ran or started between request and completion, to those before.
        first: The first full batch on all executors, to the last ones.
    """

    running: float
    first: float


def measure(cluster: Cluster, name: str, rounds: int, period_s: float) -> list[Ratios]:
    """Scale up and down under a steady overload.

    Args:
        cluster: The cluster.
        name: Name of the run, a folder.
        rounds: Number of changes to more executors.
        period_s: Seconds between two reports of the app.

    Raises:
        RuntimeError: If the app does not start, or a batch or a change takes too long.
    """
    pipeline, changes = make_pipeline(cluster, name, LIVE, WAIT_MS, period_s), list[ScaleUp]()
    feed = Feed(source_of(pipeline.home), flight_rows(1))
    with pipeline.running(), feed.at(lambda _second: ROWS_PER_S):
        for _ in range(rounds):
            pipeline.await_batches(BATCHES, datetime.now(UTC), MOST_S * BATCHES)
            asked = time.time()
            pipeline.await_version(pipeline.resize(MANY).version)
            changes.append(ScaleUp(asked, time.time()))
            pipeline.await_batches(BATCHES, datetime.now(UTC), MOST_S * BATCHES)
            pipeline.await_version(pipeline.resize(FEW).version)
    batches = pipeline.batches()
    return [found for change in changes if (found := ratios(batches, change)) is not None]


def ratios(batches: Sequence[BatchMetrics], change: ScaleUp) -> Ratios | None:
    """Return the batch times around a change; None if there are too few full batches.

    Args:
        batches: All batches, in the order in which they ran.
        change: The change.
    """
    full = max((batch.rows_in for batch in batches), default=0)
    begins = {id(batch): batch.time.timestamp() - batch.duration_s for batch in batches}
    same = [batch for batch in batches if batch.rows_in == full]
    before = [b for b in same if b.time.timestamp() < change.asked and b.slots == FEW][-WARM:]
    during = [b for b in same if b.time.timestamp() >= change.asked and begins[id(b)] < change.ready]
    after = [b for b in same if begins[id(b)] >= change.ready and b.slots == MANY][:BATCHES]
    if not before or not during or len(after) <= WARM:
        return None
    usual, warm = (median(b.duration_s for b in part) for part in (before, after[-WARM:]))
    return Ratios(max(b.duration_s for b in during) / usual, after[0].duration_s / warm)
