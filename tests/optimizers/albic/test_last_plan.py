from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from millrace.model.decision import Memory
from millrace.optimizers.conformance.builders import APP, NOON
from tests.optimizers.albic.partition_loads import FIRST, groups, proposed, running

BUSY_S, ON = [5.0, 5.0, 1.5, 9.0, 9.0, 9.0], [0, 0, 0, 1, 2, 3]
"""The stateful part of a batch takes 11.5 s; moving a partition saves 1 s."""


def planned(executors: Sequence[int] = ON) -> Memory:
    """Return the memory of a plan that was to take 10 s."""
    return {"planned_s": 10.0, "executors": {f"{FIRST}/{n}": executor for n, executor in enumerate(executors)}}


@pytest.mark.parametrize(
    ("executors", "busy_s", "moves"),
    [
        (ON, BUSY_S, False),  # the plan was missed by 1.5 s, and another would gain 1 s
        ([0, 0, 1, 1, 2, 3], BUSY_S, True),  # it was not carried out
        (ON, [5.0, 5.0, 8.0, 1.0, 9.0, 9.0], True),  # other keys are hot
    ],
)
def test_missed_plan_makes_the_next_one_gain_more(executors: list[int], busy_s: list[float], moves: bool) -> None:
    proposal, _ = proposed(groups(busy_s, ON), running(4), planned(executors))
    assert bool(proposal.changes) is moves


def test_plan_missed_because_of_other_hot_keys_does_not_raise_the_required_gain() -> None:
    told = groups(BUSY_S, ON)
    same = {f"{FIRST}/{n}": busy_s for n, busy_s in enumerate(told.busy_s)}
    assert not proposed(told, running(4), {**planned(), "busy_s": same})[0].changes
    others_hot = {f"{FIRST}/{n}": busy_s for n, busy_s in enumerate(reversed(told.busy_s))}
    assert proposed(told, running(4), {**planned(), "busy_s": others_hot})[0].changes


def test_miss_of_a_plan_counts_once() -> None:
    _, memory = proposed(groups(BUSY_S, ON), running(4), planned())
    assert memory["doubt"] == pytest.approx(0.15)
    assert proposed(groups([5.0, 5.0, 2.0, 9.0, 9.0, 9.0], ON), running(4), memory)[1] == memory


def test_vetoed_plan_is_proposed_again() -> None:
    told = groups([4.0, 3.0, 3.0, 2.0], [0, 0, 1, 1])
    first, memory = proposed(told, running(2))
    assert first.placement is not None and first.placement.moves == 2 and first.placement.batch_after_s == 6.0
    renewed = replace(running(2), version=2)  # another version without the plan
    assert proposed(told, renewed, memory) == (first, memory)


def test_moved_partition_rests() -> None:
    """The best plan moves partition 1."""
    told = groups([4.0, 4.0, 1.0, 1.0], [0, 0, 1, 1])
    moved_at = {f"{FIRST}/1": (NOON - timedelta(seconds=59)).isoformat()}
    for executors in ({}, {f"{FIRST}/1": 0}):  # version 0.2.0 did not store the planned executors
        proposal, _ = proposed(told, running(2), {"moved": moved_at, "executors": executors})
        assert proposal.placement is not None and proposal.placement.after[:2] == (1, 0)
    vetoed = {"moved": moved_at, "executors": {f"{FIRST}/1": 1}}
    rested = {"moved": {f"{FIRST}/1": (NOON - timedelta(seconds=61)).isoformat()}}
    assert proposed(told, running(2), vetoed) == proposed(told, running(2), rested) == proposed(told, running(2))


def test_miss_of_a_plan_that_was_carried_out_counts() -> None:
    first, memory = proposed(groups([4.0, 3.0, 3.0, 2.0], [0, 0, 1, 1]), running(2))
    current = running(2).with_changes(first.changes)
    found = groups([4.5, 2.5, 2.5, 2.5], current.apps[APP].placement[FIRST])
    assert proposed(found, current, memory)[1] == {**memory, "doubt": pytest.approx(1 / 6)}
