"""Router, workers and sink together, without Spark: pairs match those of comparing all, whatever the settings."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Row

from millrace.joins import worker as module
from millrace.joins.batch_plan import BatchPlan, BatchPlans
from millrace.joins.join_plan import JoinPlan
from millrace.joins.router import HASH, copies, cut
from millrace.joins.sink import Sink
from millrace.joins.window import KEY, NAME, VALUE
from millrace.joins.worker import JoinWorker, WorkerReport
from millrace.lake.source_tables import query
from millrace.model.join import JoinSettings, JoinTask
from tests.include.joins.tuples import SECOND, Output, State, brute_force, plan, table

NEAR = JoinTask("near", "r", "s", (("key", "key"),), -6, 4)
NEXT = JoinTask("next", "r", "r", (("other", "other"),), 0, 5)
BATCHES, ROWS = 8, 30
SETTINGS = [(4, 5), (2, 3), (1, 9), (3, 2), (4, 20), (1, 1), (3, 4), (2, 7), (2, 2)]
"""Workers and block size of each batch."""


@dataclass
class Handle:
    """Spark opens a worker's state with this."""

    state: State

    def getMapState(self, *schema: str) -> State:  # noqa: N802 - Spark's name
        assert schema == (NAME, KEY, VALUE) == ("window", "stream int, number long", "tuples binary, shed binary")
        return self.state


def coming(stream: str) -> list[list[tuple[Any, ...]]]:
    draw = np.random.default_rng(ord(stream))
    times = np.sort(draw.integers(0, 60, BATCHES * ROWS))
    rows = [(int(t), i, f"k{draw.integers(0, 4)}", i % 3) for i, t in enumerate(times)]
    return [rows[b * ROWS : (b + 1) * ROWS] for b in range(BATCHES)]


def routed(join: JoinPlan, batch: BatchPlan, rows: dict[str, list[Any]]) -> dict[int, list[Row]]:
    """Return the rows that reach each worker, by key."""
    reached: dict[int, list[Row]] = {}
    for stream, of_stream in rows.items():
        tuples = table(of_stream).append_column(HASH, pa.array(range(len(of_stream)), pa.int64()))
        blocks = cut(join, stream, tuples, batch, 0, 0)
        for row in copies(blocks, [join.keys[w] for w in batch.reach]).to_pylist():
            reached.setdefault(row["key"], []).append(Row(*row.values()))
    return reached


@pytest.mark.parametrize("empty", [(), (1, 3, 4, 6), tuple(range(0, 16, 2))], ids=["none", "some", "every other"])
def test_join_of_changing_workers_matches_comparing_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty: tuple[int, ...]
) -> None:
    """Spark also runs batches without rows, for example after OPTIMIZE of a source: then it calls no worker."""
    (tmp_path / "metadata").write_text(json.dumps({"id": "q"}))
    join = plan(tmp_path, NEAR, NEXT)
    plans, settings = BatchPlans(tmp_path), cycle([JoinSettings(m, block) for m, block in SETTINGS])
    plans.begin(next(settings))
    seen: list[tuple[BatchPlan, list[WorkerReport]]] = []
    sink = Sink(join, lambda: next(settings), lambda _, *each: seen.append(each))  # type: ignore[arg-type]
    states = {key: State() for key in join.keys}
    rows = {stream: coming(stream) for stream in "rs"}
    left_over = iter(range(BATCHES))
    for number in range(BATCHES + len(empty)):
        part = None if number in empty else next(left_over)
        monkeypatch.setattr(module, "batch_of", lambda _, number=number: number)
        output: list[Row] = []
        some = {} if part is None else {s: of[part] for s, of in rows.items()}
        for key, blocks in routed(join, plans.read(number), some).items():
            worker = JoinWorker(join)
            worker.init(Handle(states[key]))  # type: ignore[arg-type]
            output += worker.handleInputRows((key,), iter(blocks), None)
        sink(Output([row.asDict() for row in output]), number)  # type: ignore[arg-type]
    every = {stream: [row for batch in of for row in batch] for stream, of in rows.items()}
    for task in (NEAR, NEXT):
        left, right = every[task.left], every[task.right]
        found = query("select left_id, right_id from t", t=tmp_path / task.name).to_pylist()
        pairs = Counter((row["left_id"], row["right_id"]) for row in found)
        assert pairs == Counter((left[i][1], right[j][1]) for i, j in brute_force(task, left, right))
    assert any(batch.moves for batch, _ in seen) and any(batch.handed for batch, _ in seen)
    assert all(report.arrived == {"r": ROWS, "s": ROWS} for _, reports in seen for report in reports)
    oldest = join.oldest_live({stream: of[-1][-1][0] * SECOND for stream, of in rows.items()})
    live = sum(row[0] * SECOND >= (oldest[s] or 0) for s, of in every.items() for row in of)
    assert sum(plans.read(BATCHES + len(empty)).sizes) == live  # tuples in flight count at their destination
