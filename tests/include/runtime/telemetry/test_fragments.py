"""Stages that keep state, from a plan and the stages that ran it."""

from __future__ import annotations

from dataclasses import replace

from millrace.runtime.telemetry.execution import Boundary, ExecutedPlan, Node, Stage, StateOperator
from millrace.runtime.telemetry.fragments import StatefulStage, stateful_stages, with_end


def node(name: str, *children: Node, state: StateOperator | None = None, below: Boundary | None = None) -> Node:
    return Node(name, 1, None, None, below, children, state)


def two_stages(partitions: int = 8) -> ExecutedPlan:
    """Deduplicate and count by one key, then count by another."""
    source = node("Exchange", node("Scan"), below=Boundary(11, 3, shuffle=1))
    once = node("StreamingDeduplicate", source, state=StateOperator(0, partitions))
    first = node(
        "StateStoreSave", node("StateStoreRestore", once, state=StateOperator(1, 8)), state=StateOperator(1, 8)
    )
    exchange = node("Exchange", first, below=Boundary(22, 8, shuffle=2))
    second = node("StateStoreSave", exchange, state=StateOperator(2, 8))
    return ExecutedPlan(second, Boundary(33, None))


def stage(number: int, rdd: int, tasks: int = 8, job: int = 1) -> Stage:
    return Stage(id=number, attempt=0, job=job, tasks=tasks, run_ms=10, rdds=frozenset({rdd}))


MAP, FIRST, SECOND = stage(5, 11, tasks=3), stage(6, 22), stage(7, 33)


def test_stateful_stages_have_all_operators_and_their_inputs_and_outputs() -> None:
    assert stateful_stages(two_stages(), (MAP, FIRST, SECOND)) == (
        StatefulStage(FIRST, (0, 1), 2, frozenset({1})),
        StatefulStage(SECOND, (2,), None, frozenset({2})),
    )


def test_stateful_stage_that_did_not_run_is_left_out() -> None:
    assert [s.stage for s in stateful_stages(two_stages(), (MAP, FIRST))] == [FIRST]


def test_stateful_stage_with_tasks_that_are_not_its_partitions_is_left_out() -> None:
    assert [s.stage for s in stateful_stages(two_stages(), (stage(6, 22, tasks=4), SECOND))] == [SECOND]
    assert [s.stage for s in stateful_stages(two_stages(partitions=4), (FIRST, SECOND))] == [SECOND]


def test_stateful_stage_that_ran_twice_uses_the_last_run() -> None:
    again = stage(9, 22, job=2)
    assert [s.stage for s in stateful_stages(two_stages(), (MAP, FIRST, again, SECOND))] == [again, SECOND]


def test_end_that_the_plan_does_not_tell_is_the_last_stage_without_a_known_shuffle() -> None:
    known = two_stages()
    unknown = replace(known, end=Boundary(None, None))
    assert with_end(known, (MAP, FIRST, SECOND)) is known
    assert with_end(unknown, (MAP, FIRST, SECOND)) == known
    assert with_end(unknown, (MAP, FIRST)) == unknown
