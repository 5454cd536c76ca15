"""Messages and bytes of a live join: by block size, by forwarding, and by the number of tasks that share the streams.

The communication paper's own claims ([ESJ-C] "Reducing Serialization", "Eliminating Stream Duplication"), in its own
units. The workers, router and plans are those of the Spark job. A message is a block that a worker gets from a stream,
or everything that a worker hands to its neighbour after a micro-batch. Counting starts once the window is full.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks.esj.local_join import LocalJoin
from benchmarks.record import Record
from millrace.joins.batch_plan import BatchPlan
from millrace.joins.join_plan import TIME, JoinPlan
from millrace.joins.router import HASH
from millrace.joins.worker import WorkerReport
from millrace.model.join import BROADCAST, MP2PF, JoinDefinition, JoinSettings, JoinStream, JoinTask

BENCH = "esj"
WORKERS = 4
WINDOW, QUICK_WINDOW = 960, 192
"""Length of the window; one tuple of each stream arrives per second."""
BATCHES = 6
"""Micro-batches per window."""
BLOCKS, QUICK_BLOCKS = (1, 4, 16, 64), (1, 16)
SHARED_BLOCK = 16
TASKS, QUICK_TASKS = (1, 4, 16), (1, 4)
METHODS = {"ours": BROADCAST, "ours_mp2pf": MP2PF}
SECOND = 1_000_000
SCHEMA = pa.schema([(TIME, pa.int64()), ("id", pa.int64()), ("key", pa.int64()), ("value", pa.float64())])


@dataclass
class Traffic:
    """What workers received once the window was full."""

    messages: int = 0
    bytes: int = 0
    tuples: int = 0


def records(quick: bool) -> Iterator[Record]:
    """Measure both ways of forwarding with each block size, and with each number of tasks that share the streams.

    Args:
        quick: A smaller window, fewer sizes.
    """
    window = QUICK_WINDOW if quick else WINDOW
    for method, forwarding in METHODS.items():
        for block in QUICK_BLOCKS if quick else BLOCKS:
            yield from _costs(f"messages_block_{block}", method, traffic(window, forwarding, block, 1))
        for tasks in QUICK_TASKS if quick else TASKS:
            yield from _costs(f"messages_tasks_{tasks}", method, traffic(window, forwarding, SHARED_BLOCK, tasks))


def traffic(window: int, forwarding: str, block: int, tasks: int) -> Traffic:
    """Return the traffic of a join of two streams.

    Args:
        window: Length of the window, seconds.
        forwarding: How blocks reach the workers.
        block: Tuples per block.
        tasks: Tasks that share the streams.
    """
    found, full = Traffic(), BATCHES + WORKERS

    def count(query: str, batch: BatchPlan, reports: Sequence[WorkerReport]) -> None:
        if batch.batch_id >= full:
            found.messages += sum(report.messages for report in reports)
            found.bytes += sum(report.bytes for report in reports)
            found.tuples += sum(sum(report.arrived.values()) for report in reports)

    draw, size = random.Random(0), window // BATCHES  # noqa: S311 - draws, no secrets
    with tempfile.TemporaryDirectory(prefix="millrace-messages-") as folder:
        settings = JoinSettings(WORKERS, block)
        join = LocalJoin(_plan(folder, forwarding, window, tasks), lambda: settings, count, collect=True)
        for at in range(0, (full + BATCHES) * size, size):
            ids = range(at, at + size)
            columns = [
                [i * SECOND for i in ids],
                ids,
                [draw.randrange(window) for _ in ids],
                [draw.random() for _ in ids],
            ]
            rows = pa.table(columns, schema=SCHEMA).append_column(HASH, pa.array(ids, pa.int64()))
            join.run({"r": rows, "s": rows})
    return found


def _plan(folder: str, forwarding: str, window: int, tasks: int) -> JoinPlan:
    columns = {name: name for name in ("id", "key", "value")}
    streams = tuple(JoinStream(name, "", "time", columns) for name in "rs")
    # the first task has the widest window, so the streams stay as long for one task as for many
    spans = (window // (1 + i % 3) for i in range(tasks))
    every = tuple(JoinTask(f"task{i}", "r", "s", (("key", "key"),), -span, span) for i, span in enumerate(spans))
    definition = JoinDefinition(streams, every, folder, folder, 1_000_000, forwarding)
    return JoinPlan(definition, {"r": SCHEMA, "s": SCHEMA}, Path(folder), tuple(range(WORKERS)))


def _costs(scenario: str, method: str, found: Traffic) -> Iterator[Record]:
    for unit, value in (("messages", found.messages), ("bytes", found.bytes)):
        yield Record(BENCH, scenario, method, f"{unit}_per_tuple", value / found.tuples, unit, n=found.tuples)
