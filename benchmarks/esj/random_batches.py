"""Random courses of a live join: pairs lost and doubled, and the difference between neighbours when the join rests.

The workers, router and plans are those of the Spark job. In each micro-batch, the number of workers and the block size
change, Spark may run the batch without rows, and the driver may die before Spark commits it, so the batch is repeated.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from benchmarks.esj.local_join import LocalJoin
from benchmarks.record import Record
from millrace.joins.join_plan import TIME, JoinPlan
from millrace.joins.router import HASH
from millrace.model.join import BROADCAST, MP2PF, JoinDefinition, JoinSettings, JoinStream, JoinTask

BENCH, SCENARIO = "esj", "random_batches"
RUNS, QUICK_RUNS = 300, 20
WORKERS = 5
"""Most workers."""
BATCHES, ROWS = 12, 6
"""Most micro-batches of a run, and most rows of a stream in one."""
SECOND = 1_000_000
FAR = 1_000
"""Seconds between the rows that let all others meet and leave."""
SCHEMA = pa.schema([(TIME, pa.int64()), ("id", pa.int64()), ("key", pa.int64())])
METHODS = {"ours": BROADCAST, "ours_mp2pf": MP2PF}

Tuple = tuple[int, int, int | None]
"""Second, id and key."""


@dataclass
class Outcome:
    """Outcome of runs: ``over`` is the highest excess of a difference over a block, the rest are sums."""

    pairs: int = 0
    lost: int = 0
    doubled: int = 0
    over: int = 0
    restless: int = 0


def records(quick: bool, first: int = 0) -> Iterator[Record]:
    """Run both ways of forwarding.

    Args:
        quick: Fewer runs.
        first: Seed of the first run.
    """
    runs = QUICK_RUNS if quick else RUNS
    for name, forwarding in METHODS.items():
        total = Outcome()
        for seed in range(first, first + runs):
            run(forwarding, random.Random(seed), total)  # noqa: S311 - draws, no secrets
        figures = {
            "runs": (runs, "runs"),
            "pairs": (total.pairs, "pairs"),
            "pairs_lost": (total.lost, "pairs"),
            "pairs_doubled": (total.doubled, "pairs"),
            "workload_difference_over_block": (total.over, "tuples"),
            "runs_stuck": (total.restless, "runs"),
        }
        for figure, (value, unit) in figures.items():
            yield Record(BENCH, SCENARIO, name, figure, value, unit, n=runs)


def run(forwarding: str, draw: random.Random, total: Outcome) -> None:
    """Play one course and add its outcome.

    Args:
        forwarding: How blocks reach the workers.
        draw: Random numbers.
        total: The outcome so far.
    """
    reach, keys = draw.choice((0, 1, 3, 8, 100)), draw.choice((1, 3))
    tasks = (
        JoinTask("near", "r", "s", (("key", "key"),), -reach, draw.choice((0, 1, reach))),
        JoinTask("far", "s", "r", (("key", "key"),), -draw.choice((0, 2)), 2 * reach),
    )
    with tempfile.TemporaryDirectory(prefix="millrace-run-") as folder:
        wanted = JoinSettings(1)
        join = LocalJoin(_plan(folder, tasks, forwarding), lambda: wanted, collect=True)
        every: dict[str, list[Tuple]] = {"r": [], "s": []}
        at = 0
        for _ in range(draw.randint(3, BATCHES)):
            wanted = JoinSettings(draw.randint(1, WORKERS), draw.randint(1, 4))
            rows = {}
            for stream in every if draw.random() > 0.2 else ():
                of = sorted(at + draw.randint(0, 4) for _ in range(draw.randint(0, ROWS)))
                rows[stream] = [(second, len(every[stream]) + i, draw.randrange(keys)) for i, second in enumerate(of)]
                every[stream] += rows[stream]
            at += 4  # later rows are not older than earlier ones, so none is late
            join.run(tables(rows), crashes=draw.random() < 0.2)
        _rest(join, total)
        for turn in range(1, WORKERS + 4):
            join.run(tables({stream: [(at + turn * FAR, -1, None)] for stream in every}))
        for task in tasks:
            expected = _pairs(task, every)
            total.pairs += expected.total()
            total.lost += (expected - join.pairs[task.name]).total()
            total.doubled += (join.pairs[task.name] - expected).total()


def tables(rows: Mapping[str, Sequence[Tuple]]) -> dict[str, pa.Table]:
    """Return the rows of each stream with hashes; streams without rows are left out."""
    found = {}
    for stream, of in rows.items():
        if of:
            seconds, ids, keys = zip(*of, strict=True)
            table = pa.table([[second * SECOND for second in seconds], ids, keys], schema=SCHEMA)
            found[stream] = table.append_column(HASH, pa.array(ids, pa.int64()))
    return found


def _plan(folder: str, tasks: tuple[JoinTask, ...], forwarding: str) -> JoinPlan:
    streams = tuple(JoinStream(name, "", "time", {"id": "id", "key": "key"}) for name in "rs")
    definition = JoinDefinition(streams, tasks, folder, folder, 1000, forwarding)
    return JoinPlan(definition, {"r": SCHEMA, "s": SCHEMA}, Path(folder), tuple(range(WORKERS)))


def _rest(join: LocalJoin, total: Outcome) -> None:
    """Run batches whose only row is dropped until nothing moves, and compare neighbours."""
    for _ in range(40):
        join.run(tables({"r": [(-FAR, -1, None)]}))
        plan = join.next_plan
        if not plan.handed and not plan.moves and plan.leaving is None:
            break
    else:
        total.restless += 1
        return
    block = plan.settings.block
    for side, course in ((0, plan.rests), (1, plan.rests[::-1])):
        total.over = max([total.over, *(a[side] - b[side] - block for a, b in pairwise(course))])
    total.over = max([total.over, *(abs(a - b) - block for a, b in pairwise(plan.sizes[: plan.settings.workers]))])


def _pairs(task: JoinTask, every: Mapping[str, Sequence[Tuple]]) -> Counter[tuple[int, int]]:
    return Counter(
        (left[1], right[1])
        for left in every[task.left]
        for right in every[task.right]
        if left[2] == right[2] and task.after_s <= right[0] - left[0] <= task.before_s
    )
