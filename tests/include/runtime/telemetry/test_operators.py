"""Operators from a plan and the stages that ran it."""

from __future__ import annotations

from millrace.runtime.telemetry.batches import repeats
from millrace.runtime.telemetry.execution import Boundary, ExecutedPlan, Node, Stage
from millrace.runtime.telemetry.operators import operators
from millrace.runtime.telemetry.sources.api import Position


def node(
    name: str, rows: int | None, *children: Node, python_ms: int | None = None, below: Boundary | None = None
) -> Node:
    return Node(name, rows, python_ms, None if python_ms is None else python_ms + 10, below, children)


def stateful_plan() -> ExecutedPlan:
    """Scan 100 rows, call Python twice, exchange 20 partial rows, keep 7 keys."""
    scan = node("Scan parquet", 100)
    first = node("MapInPandas", 100, node("InputAdapter", 100, scan), python_ms=800)
    second = node("MapInArrow", 90, first, python_ms=1000)
    partial = node("HashAggregate", 20, second)
    exchange = node("Exchange", 20, partial, below=Boundary(rdd=11, tasks=3))
    save = node("StateStoreSave", 7, node("StateStoreRestore", 20, exchange))
    return ExecutedPlan(node("HashAggregate", 7, save), Boundary(rdd=22, tasks=None))


STAGES = (
    Stage(id=0, attempt=0, job=1, tasks=1, run_ms=99, rdds=frozenset({1, 2})),  # planning of the source
    Stage(id=1, attempt=0, job=2, tasks=3, run_ms=1500, rdds=frozenset({9, 10, 11})),
    Stage(id=2, attempt=0, job=2, tasks=8, run_ms=400, rdds=frozenset({20, 21, 22})),
)


def test_operators_when_plan_has_two_stages_then_each_gets_its_own_time() -> None:
    found = operators(stateful_plan(), STAGES, slots=4)
    assert [o.id for o in found] == ["0.Scan_parquet", "1.MapInPandas", "2.MapInArrow", "3.StateStoreSave"]
    scan, first, second, save = found
    assert [o.useful_s for o in found] == [0.5, 0.8, 0.2, 0.4]  # 1.01 - 0.81; the rest of 1.5
    assert [(o.tasks, o.p) for o in found] == [(3, 3), (3, 3), (3, 3), (8, 4)]
    assert (scan.rows_in, scan.rows_out) == (100, 20)
    assert (first.rows_in, first.rows_out) == (100, 100)
    assert (second.rows_in, second.rows_out) == (100, 90)
    assert (save.rows_in, save.rows_out) == (20, 7)


def test_operators_when_times_are_summed_then_match_the_stages() -> None:
    found = operators(stateful_plan(), STAGES, slots=4)
    assert sum(o.useful_s or 0 for o in found) == (1500 + 400) / 1000


def test_operators_when_batch_was_computed_twice_then_count_rows_once() -> None:
    again = (*STAGES, Stage(id=3, attempt=0, job=3, tasks=3, run_ms=1500, rdds=frozenset({11, 12})))
    found = operators(stateful_plan(), again, slots=4, repeats=2)
    assert found[1].rows_in == 50 and found[0].useful_s == 2.0


def test_rows_count_once_when_an_action_in_foreach_batch_stops_early() -> None:
    """Spark counts input rows per scan (SPARK-25414): 40 rows were read twice, 10 of them once more."""
    often = repeats({"numInputRows": 90}, Position(read=40))
    scan = ExecutedPlan(node("Scan parquet", 90), Boundary(rdd=11, tasks=3))
    (found,) = operators(scan, STAGES[1:2], slots=4, repeats=often)
    assert (found.rows_in, found.rows_out, found.useful_s) == (40, 40, 1.5)


def test_operators_include_the_stages_of_a_function_used_as_sink() -> None:
    own = Stage(id=4, attempt=0, job=4, tasks=2, run_ms=300, rdds=frozenset({40}))
    sink = operators(stateful_plan(), (*STAGES, own), slots=4, foreach_batch=True)[-1]
    assert (sink.id, sink.tasks, sink.useful_s, sink.rows_in) == ("sink.foreachBatch", 2, 0.3, None)


def test_operators_when_plan_is_gone_then_use_stages_of_the_main_job() -> None:
    found = operators(None, STAGES, slots=2)
    assert [(o.id, o.tasks, o.p, o.useful_s, o.rows_in) for o in found] == [
        ("0.stage", 3, 2, 1.5, None),
        ("1.stage", 8, 2, 0.4, None),
    ]


def test_operators_without_stages_keep_rows_but_have_no_time() -> None:
    found = operators(stateful_plan(), (), slots=2)
    assert [o.name for o in found] == ["MapInPandas", "MapInArrow"]
    assert found[0].useful_s == 0.8 and found[0].tasks == 3


def test_operators_when_a_table_is_broadcast_then_its_rows_do_not_flow() -> None:
    side = node("BroadcastExchange", 50, node("Scan csv", 50), below=Boundary(None, None))
    plan = ExecutedPlan(node("BroadcastHashJoin", 95, node("Scan parquet", 100), side), Boundary(22, None))
    (join,) = operators(plan, STAGES, slots=2)
    assert (join.name, join.rows_in, join.rows_out) == ("Scan parquet", 100, 95)


def test_operators_of_a_stage_without_tasks_did_not_run() -> None:
    empty = Stage(id=5, attempt=0, job=2, tasks=0, run_ms=0, rdds=frozenset({9, 10, 11}))
    found = operators(stateful_plan(), (empty, STAGES[2]), slots=4)
    assert [o.id for o in found] == ["3.StateStoreSave"], "and the others keep their ids"
