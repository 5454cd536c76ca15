"""The end of a batch: results exactly once, whichever driver writes them, and terms for the next batch."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from millrace.joins.batch_plan import BatchPlans, Move
from millrace.joins.blocks import HandOver, pack
from millrace.joins.sink import Sink
from millrace.joins.worker import HANDED, PAIRS, REPORT, WorkerReport
from millrace.lake.source_tables import query
from millrace.model.errors import MillraceError
from millrace.model.join import JoinSettings, JoinTask
from tests.include.joins.tuples import Output, plan

TASK = JoinTask("t", "r", "s", (("key", "key"),), -1, 1)


@pytest.fixture
def found(tmp_path: Path) -> Any:
    (tmp_path / "metadata").write_text(json.dumps({"id": "q"}))
    made = plan(tmp_path, TASK, workers=3)
    BatchPlans(tmp_path).begin(JoinSettings(2, 10))
    return made


def output(found: Any, pairs: list[tuple[int, int]], sizes: dict[int, int], *over: dict[str, Any]) -> Output:
    schema = found.result_schema(TASK)
    at = 0
    rows = [{"left_time": at, "left_id": a, "right_time": at, "right_id": b} for a, b in pairs]
    content = pack(pa.Table.from_pylist(rows, schema=schema))
    told = [{"kind": PAIRS, "task": "t", "worker": 0, "content": content}] if pairs else []
    for worker, size in sizes.items():
        report = WorkerReport(worker, size, size, 1, 1, 0, 0, {"r": 1, "s": 1}, {"r": 0, "s": 0}, {"r": 5})
        told.append({"kind": REPORT, "task": "", "worker": worker, "content": json.dumps(asdict(report)).encode()})
    return Output([*told, *over])


def ids(root: Path) -> list[tuple[int, int]]:
    rows = query("select left_id, right_id from t", t=root / "t").to_pylist()
    return sorted((row["left_id"], row["right_id"]) for row in rows)


def test_sink_continues_after_a_predecessor_that_still_wrote(found, tmp_path: Path) -> None:
    settings = JoinSettings(2, 10)
    old, new = (Sink(found, lambda: settings, lambda *told: None) for _ in range(2))
    old(output(found, [(1, 2)], {0: 1, 1: 0}), 0)
    old(output(found, [(3, 4)], {0: 1, 1: 0}), 1)
    new(output(found, [(5, 6)], {0: 1, 1: 0}), 2)
    assert ids(tmp_path) == [(1, 2), (3, 4), (5, 6)]


def test_sink_when_a_batch_is_repeated_then_writes_results_once(found, tmp_path: Path) -> None:
    told: list[int] = []
    sink = Sink(found, lambda: JoinSettings(2, 10), lambda query, terms, reports: told.append(terms.batch_id))
    for _ in range(2):
        sink(output(found, [(1, 2), (1, 2)], {0: 1, 1: 0}), 0)
    assert ids(tmp_path) == [(1, 2), (1, 2)]  # a pair found twice in a batch is there twice
    assert told == [0, 0]


def test_sink_plans_the_next_batch_with_new_workers_and_settings(found, tmp_path: Path) -> None:
    wanted = iter([JoinSettings(7, 4000, 2.0), JoinSettings(1, 0, -1.0)])
    sink = Sink(found, lambda: next(wanted), lambda *told: None)
    sink(output(found, [], {0: 600, 1: 0}), 0)
    terms = BatchPlans(tmp_path).read(1)
    assert terms.settings == JoinSettings(3, 500, 1.0)  # as many as there are partitions, half a worker, all
    assert terms.moves == (Move(0, 1, 200), Move(0, 2, 200)) and terms.sizes == (200, 200, 200)
    assert terms.clocks == {"r": 5}
    over = [
        {"kind": HANDED, "task": "", "worker": target, "content": HandOver(0, 200, bytes([target])).write()}
        for target in (1, 2)
    ]
    sink(output(found, [], {0: 200, 1: 0, 2: 0}, *over), 1)
    terms = BatchPlans(tmp_path).read(2)
    assert terms.settings == JoinSettings(1, 1, 0.0) and terms.handed == ((1, 0), (2, 0))
    assert BatchPlans(tmp_path).handed(2, 2, 0) == b"\x02"
    # tuples in flight count at their destination, and are called back from there
    assert set(terms.moves) == {Move(1, 0, 200), Move(2, 0, 200)} and terms.sizes == (600, 0, 0)


def test_sink_when_results_are_from_another_task_then_says_so(found, tmp_path: Path) -> None:
    Sink(found, JoinSettings, lambda *told: None)
    other = JoinTask("t", "r", "s", (("key", "key"),), -2, 2)
    with pytest.raises(MillraceError, match="new folder"):
        Sink(plan(tmp_path, other, workers=3), JoinSettings, lambda *told: None)
