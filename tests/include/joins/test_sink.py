"""The end of a batch: results exactly once, whichever driver writes them, and terms for the next batch."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.esj.local_join import Output
from millrace.joins.batch_plan import BatchPlan, BatchPlans, Move
from millrace.joins.blocks import HandOver, pack
from millrace.joins.results import HANDED, PAIRS, REPORT
from millrace.joins.sink import Sink
from millrace.joins.worker import WorkerReport
from millrace.lake.source_tables import query
from millrace.model.errors import MillraceError
from millrace.model.join import MP2PF, JoinSettings, JoinTask
from tests.include.joins.tuples import plan

TASK = JoinTask("t", "r", "s", (("key", "key"),), -1, 1)


@pytest.fixture
def found(tmp_path: Path) -> Any:
    (tmp_path / "metadata").write_text(json.dumps({"id": "q"}))
    made = plan(tmp_path, TASK, workers=3)
    BatchPlans(tmp_path).begin(BatchPlan(0, JoinSettings(2, 10)))
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
    over = [{"kind": HANDED, "task": "", "worker": target, "content": HandOver(0, 200).write()} for target in (1, 2)]
    sink(output(found, [], {0: 200, 1: 0, 2: 0}, *over), 1)
    terms = BatchPlans(tmp_path).read(2)
    assert terms.settings == JoinSettings(1, 1, 0.0) and terms.handed == ((1, 0), (2, 0))
    # tuples in flight count at their destination, and are called back from there
    assert set(terms.moves) == {Move(1, 0, 200), Move(2, 0, 200)} and terms.sizes == (600, 0, 0)


def test_sink_plans_a_chain_that_shrinks_by_a_worker_per_batch_with_rows(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(json.dumps({"id": "q"}))
    found = plan(tmp_path, TASK, workers=4, forwarding=MP2PF)
    plans, wanted = BatchPlans(tmp_path), iter([JoinSettings(2, 10)] * 4)
    plans.write(BatchPlan(0, JoinSettings(4, 10), chain=4, rests=((5, 6), (7, 8), (0, 0), (1, 2))))
    sink = Sink(found, lambda: next(wanted), lambda *told: None)

    def report(worker: int, *rests: int) -> dict[str, Any]:
        told = WorkerReport(worker, 1, 1, 1, 1, 0, 0, {}, {}, {"r": worker}, rests=(rests[0], rests[1]))
        return {"kind": REPORT, "task": "", "worker": worker, "content": json.dumps(asdict(told)).encode()}

    def hand(target: int, source: int, left: int, right: int) -> dict[str, Any]:
        plans.hand(plans_at + 1, target, source, bytes([source]))
        return {"kind": HANDED, "task": "", "worker": target, "content": HandOver(source, left, right).write()}

    plans_at = 0
    sink(Output([*(report(w, 3, 4) for w in range(4)), hand(1, 0, 2, 0)]), 0)
    first = plans.read(1)
    assert (first.chain, first.leaving, first.clocks) == (4, 3, {"r": 3})
    assert first.rests == ((3, 4), (5, 4), (3, 4), (3, 4)) and first.handed == ((1, 0),)
    sink(Output([]), 1)  # no rows: nobody acknowledges, and nobody leaves
    second = plans.read(2)
    assert (second.chain, second.rests, second.handed) == (4, first.rests, ((1, 0),))
    assert plans.handed(2, 1, 0) == b"\x00"
    plans_at = 2
    sink(Output([*(report(w, 1, 1) for w in range(3)), report(3, 0, 0), hand(2, 3, 3, 4)]), 2)
    third = plans.read(3)
    assert (third.chain, third.leaving, third.rests, third.handed) == (3, 2, ((1, 1), (1, 1), (4, 5)), ((2, 3),))


def test_sink_when_results_are_from_another_task_then_says_so(found, tmp_path: Path) -> None:
    Sink(found, JoinSettings, lambda *told: None)
    other = JoinTask("t", "r", "s", (("key", "key"),), -2, 2)
    with pytest.raises(MillraceError, match="new folder"):
        Sink(plan(tmp_path, other, workers=3), JoinSettings, lambda *told: None)
