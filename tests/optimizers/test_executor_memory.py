"""More memory for executors that die of too little: once, and never without a cause."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import Change, Deployment, ExecutorSize
from millrace.optimizers.conformance.builders import APP, app_signals, deployment, signals
from millrace.optimizers.executor_memory import ExecutorMemory, NoOptions


def with_executors(memory_mb: int) -> Deployment:
    plain = deployment(4)
    return replace(plain, apps={APP: replace(plain.apps[APP], executor=ExecutorSize(1, memory_mb))})


def propose(deaths: int, current: Deployment, memory: Memory | None = None) -> tuple[Proposal, Memory]:
    measured = signals(app_signals(4, 100.0, None, memory_deaths=deaths))
    return ExecutorMemory(NoOptions()).propose(measured, current, memory or {})


def test_executors_that_die_of_memory_get_twice_as_much() -> None:
    proposal, _ = propose(3, with_executors(512))
    assert proposal.changes == (Change(APP, "executor_memory_mb", 512, 1024),)
    assert proposal.sentence == "3 executors with 512 MB ran out of memory; they get 1,024 MB, once"
    after = with_executors(512).with_changes(proposal.changes)
    assert after.apps[APP].executor == ExecutorSize(1, 1024)
    assert after.apps[APP].restart_content != with_executors(512).apps[APP].restart_content


def test_single_death_changes_nothing() -> None:
    assert propose(1, with_executors(512))[0].changes == ()


def test_app_without_executors_is_left_alone() -> None:
    assert propose(9, deployment(4))[0].changes == ()


def test_memory_set_by_a_person_may_be_raised_again() -> None:
    _, memory = propose(2, with_executors(512))
    assert propose(2, with_executors(3000), memory)[0].changes != ()


@given(st.lists(st.integers(0, 5), max_size=30), st.booleans())
def test_endless_deaths_raise_memory_once(deaths: list[int], undone: bool) -> None:
    current, memory, changes = with_executors(512), {}, 0
    for number in deaths:
        proposal, memory = propose(number, current, memory)
        changes += len(proposal.changes)
        if not undone:  # otherwise the restart failed, and was rolled back
            current = current.with_changes(proposal.changes)
    assert changes == any(number > 1 for number in deaths)
