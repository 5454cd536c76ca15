"""More memory for executors that need it, once, and less for those that do not, never without a cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import Change, Deployment, ExecutorSize
from millrace.optimizers.conformance.builders import APP, NOON, app_signals, deployment, signals
from millrace.optimizers.executor_memory import CALM_FOR_S, ExecutorMemory, ExecutorMemoryOptions


def with_executors(memory_mb: int) -> Deployment:
    plain = deployment(4)
    return replace(plain, apps={APP: replace(plain.apps[APP], executor=ExecutorSize(1, memory_mb))})


def propose(deaths: int, current: Deployment, memory: Memory | None = None) -> tuple[Proposal, Memory]:
    measured = signals(app_signals(4, 100.0, None, memory_deaths=deaths))
    return ExecutorMemory(ExecutorMemoryOptions()).propose(measured, current, memory or {})


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
        current = current.with_changes(proposal.changes)
        if undone and proposal.changes:  # it ran, and was rolled back
            memory = propose(0, current, memory)[1]
            current = with_executors(512)
    assert changes == any(number > 1 for number in deaths)


def test_change_that_was_not_carried_out_is_proposed_again() -> None:
    asked, memory = propose(2, with_executors(512))
    again, memory = propose(2, with_executors(512), memory)
    assert again == asked and again.changes
    _, memory = propose(0, with_executors(1024), memory)
    assert propose(2, with_executors(1024), memory)[0].reason_code == "memory_raised_before"


def test_garbage_collection_of_the_former_size_does_not_count() -> None:
    raised, memory = evaluate([0.4, 0.4, 0.4], with_executors(1024))
    assert raised.changes
    again, _ = evaluate([0.4, 0.4, 0.4], with_executors(2048), memory)
    assert again.reason_code == "memory_suffices"
    again, _ = evaluate([0.4, 0.4, 0.4, 0.4], with_executors(2048), memory)
    assert again.reason_code == "memory_raised_before"


LEAST = {"min_memory_mb": {APP: 1024}}


def evaluate(
    ratios: Iterable[float | None],
    current: Deployment,
    memory: Memory | None = None,
    every_s: float = 60.0,
    **options: Any,
) -> tuple[Proposal, Memory]:
    """Return the first proposal with a change, or the last one, of evaluations with these shares of GC."""
    tuner, stored = ExecutorMemory(ExecutorMemoryOptions(**options)), dict(memory or {})
    proposal = Proposal("executor_memory", (), "", "")
    for number, ratio in enumerate(ratios):
        until = NOON + timedelta(seconds=number * every_s)
        seen = signals(app_signals(4, 100.0, None, gc_ratio=ratio), until=until)
        proposal, stored = tuner.propose(seen, current, stored)
        if proposal.changes:
            break
    return proposal, stored


def test_telemetry_that_another_app_has_outrun_counts_once() -> None:
    assert evaluate([0.4] * 5, with_executors(1024), every_s=0.0)[0].changes == ()


def test_much_garbage_collection_in_three_evaluations_raises_memory() -> None:
    proposal, _ = evaluate([0.4, 0.1, 0.4, 0.4], with_executors(1024))
    assert proposal.changes == ()
    proposal, _ = evaluate([0.4, 0.4, 0.42], with_executors(1024))
    assert proposal.changes == (Change(APP, "executor_memory_mb", 1024, 2048),)
    assert proposal.sentence == (
        "garbage collection takes 42% of the tasks' time on executors with 1,024 MB; they get 2,048 MB, once"
    )


def test_a_calm_day_lowers_memory_by_a_quarter_to_the_least_at_most() -> None:
    hours = [0.01] * int(CALM_FOR_S / 3600 + 1)
    proposal, _ = evaluate(hours, with_executors(2048), every_s=3600, **LEAST)
    assert proposal.changes == (Change(APP, "executor_memory_mb", 2048, 1536),)
    assert evaluate(hours, with_executors(1200), every_s=3600, **LEAST)[0].changes[0].value == 1024
    assert evaluate(hours, with_executors(1024), every_s=3600, **LEAST)[0].changes == ()
    assert evaluate(hours, with_executors(2048), every_s=3600)[0].changes == ()  # the spec does not allow it


def test_one_busy_hour_or_a_new_size_starts_the_day_again() -> None:
    hours = [0.01] * 20 + [0.05] + [0.01] * 20
    assert evaluate(hours, with_executors(2048), every_s=3600, **LEAST)[0].changes == ()
    _, memory = evaluate([0.01] * 20, with_executors(4096), every_s=3600, **LEAST)
    assert evaluate([0.01] * 20, with_executors(2048), memory, every_s=3600, **LEAST)[0].changes == ()


def test_silent_hours_do_not_count_against_a_calm_day() -> None:
    hours = [0.01] * 5 + [None] * 15 + [0.01] * 5
    assert evaluate(hours, with_executors(2048), every_s=3600, **LEAST)[0].changes != ()


def test_size_that_was_too_small_is_left_and_not_chosen_again() -> None:
    calm = [0.01] * 30
    _, memory = evaluate(calm, with_executors(2048), every_s=3600, **LEAST)
    lowered = with_executors(1536)
    back, memory = propose(2, lowered, memory)
    assert back.changes == (Change(APP, "executor_memory_mb", 1536, 2048),)
    assert back.sentence.endswith("they get 2,048 MB again")
    assert evaluate(calm, with_executors(2048), memory, every_s=3600, **LEAST)[0].changes == ()
    assert propose(2, with_executors(2048), memory)[0].changes != ()  # and may still be doubled, once


def test_only_one_app_restarts_at_a_time() -> None:
    apps = {name: with_executors(512).apps[APP] for name in ("first", "second")}
    dying = [replace(app_signals(4, 100.0, None, memory_deaths=2), app=name) for name in apps]
    tuner, current = ExecutorMemory(ExecutorMemoryOptions()), replace(deployment(4), apps=apps)
    both = replace(signals(dying[0]), apps=tuple(dying))
    proposal, memory = tuner.propose(both, current, {})
    assert [change.app for change in proposal.changes] == ["first"]
    current = current.with_changes(proposal.changes)
    calm = replace(both, apps=(replace(dying[0], memory_deaths=0), dying[1]))
    assert [change.app for change in tuner.propose(calm, current, memory)[0].changes] == ["second"]
