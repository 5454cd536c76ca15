"""Router, workers and sink together, without Spark: pairs match those of comparing all, whatever the settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.esj.local_join import LocalJoin
from millrace.joins.batch_plan import BatchPlan
from millrace.joins.router import HASH
from millrace.joins.worker import WorkerReport
from millrace.lake.source_tables import query
from millrace.model.join import BROADCAST, MP2PF, JoinSettings, JoinTask
from tests.include.joins.tuples import SECOND, brute_force, plan, table

NEAR = JoinTask("near", "r", "s", (("key", "key"),), -6, 4)
NEXT = JoinTask("next", "r", "r", (("other", "other"),), 0, 5)
BACK = JoinTask("back", "s", "r", (("other", "other"),), -2, 9)
TASKS = {BROADCAST: (NEAR, NEXT), MP2PF: (NEAR, BACK)}
BATCHES, ROWS = 8, 30
SETTINGS = [(4, 5), (2, 3), (1, 9), (3, 2), (4, 20), (1, 1), (3, 4), (2, 7), (2, 2)]
"""Workers and block size of each batch."""
FLUSH = range(1000, 1012)
"""Times of late batches that let all other tuples meet and leave."""


def coming(stream: str) -> list[list[tuple[Any, ...]]]:
    draw = np.random.default_rng(ord(stream))
    times = np.sort(draw.integers(0, 60, BATCHES * ROWS))
    rows = [(int(t), i, f"k{draw.integers(0, 4)}", i % 3) for i, t in enumerate(times)]
    return [rows[b * ROWS : (b + 1) * ROWS] for b in range(BATCHES)]


def tuples(rows: Mapping[str, list[Any]]) -> dict[str, pa.Table]:
    return {s: table(of).append_column(HASH, pa.array(range(len(of)), pa.int64())) for s, of in rows.items()}


def check_pairs(folder: Path, tasks: tuple[JoinTask, ...], every: Mapping[str, list[Any]]) -> None:
    for task in tasks:
        left, right = every[task.left], every[task.right]
        found = query("select left_id, right_id from t", t=folder / task.name).to_pylist()
        pairs = Counter((row["left_id"], row["right_id"]) for row in found)
        assert pairs == Counter((left[i][1], right[j][1]) for i, j in brute_force(task, left, right))


def flush(join: LocalJoin) -> None:
    for second in FLUSH:
        join.run(tuples({stream: [(second * 100, -1, None, None)] for stream in "rs"}))


@pytest.mark.parametrize("forwarding", [BROADCAST, MP2PF])
@pytest.mark.parametrize("empty", [(), (1, 3, 4, 6), tuple(range(0, 16, 2))], ids=["none", "some", "every other"])
def test_join_of_changing_workers_matches_comparing_all(
    tmp_path: Path, empty: tuple[int, ...], forwarding: str
) -> None:
    """Spark also runs batches without rows, for example after OPTIMIZE of a source: then it calls no worker."""
    found, settings = (
        plan(tmp_path, *TASKS[forwarding], forwarding=forwarding),
        cycle(JoinSettings(*s) for s in SETTINGS),
    )
    seen: list[tuple[BatchPlan, list[WorkerReport]]] = []
    join = LocalJoin(found, lambda: next(settings), lambda _, *each: seen.append(each))  # type: ignore[arg-type]
    rows = {stream: coming(stream) for stream in "rs"}
    left_over = iter(range(BATCHES))
    for number in range(BATCHES + len(empty)):
        part = None if number in empty else next(left_over)
        join.run({} if part is None else tuples({s: of[part] for s, of in rows.items()}), crashes=number % 2)
    every = {stream: [row for batch in of for row in batch] for stream, of in rows.items()}
    oldest = found.oldest_live({stream: of[-1][-1][0] * SECOND for stream, of in rows.items()})
    live = sum(row[0] * SECOND >= (oldest[s] or 0) for s, of in every.items() for row in of)
    counted = join.next_plan.sizes if forwarding == BROADCAST else map(sum, join.next_plan.rests)
    # tuples in flight count at their destination; in a chain, a tuple leaves later
    assert sum(counted) == live if forwarding == BROADCAST else sum(counted) >= live
    assert any(batch.handed for batch, _ in seen)
    for _, reports in seen:
        assert not reports or all(sum(r.arrived[stream] for r in reports) == ROWS for stream in "rs")
    if forwarding == MP2PF:
        flush(join)
    check_pairs(tmp_path, TASKS[forwarding], every)
