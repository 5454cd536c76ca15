"""Executors that are to go and have much state are emptied over several evaluations."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from millrace.control.proposals import collect_proposals
from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import SLOTS, Change, Deployment
from millrace.model.signals import Signals
from millrace.optimizers.albic.optimizer import Albic
from millrace.optimizers.albic.options import PlacementOptions
from millrace.optimizers.conformance.builders import APP, app_signals, signals
from tests.optimizers.albic.partition_loads import FIRST, groups, running

MB = 1_000_000
ON = tuple(n % 4 for n in range(32))
"""Eight partitions on each of four executors."""


def seen(on: tuple[int, ...], slots: int = 4, size_mb: int | None = 50, busy_s: Any = None) -> Signals:
    sizes = (None if size_mb is None else size_mb * MB,) * len(on)
    measured = groups(busy_s or [1.0] * len(on), on, state_bytes=sizes)
    return replace(signals(app_signals(slots, 100.0, None)), partition_loads=measured)


def proposed(
    given: Signals, executors: int, on: tuple[int, ...], memory: Memory | None = None, **options: Any
) -> tuple[Proposal, Memory, tuple[int, ...]]:
    current = running(executors, {FIRST: on})
    proposal, learned = Albic(PlacementOptions(**options)).propose(given, current, memory or {})
    placed = current.with_changes(proposal.changes).apps[APP].placement[FIRST]
    return proposal, json.loads(json.dumps(learned)), placed


@pytest.mark.parametrize(("options", "moves"), [({"budget": 3}, 3), ({"budget": 160, "cost": "state"}, 3)])
def test_executor_with_much_state_is_emptied_within_the_budget(options: dict[str, Any], moves: int) -> None:
    on, memory, steps = ON, {}, 0
    marked: set[int] = set()
    while True:
        proposal, memory, after = proposed(seen(on), 3, on, memory, **options)
        steps += 1
        moved = {(a, b) for a, b in zip(on, after, strict=True) if a != b}
        if proposal.reason_code == "executors_changed":
            break
        assert proposal.reason_code == "executors_draining" and not proposal.predicted
        marked |= {a for a, _ in moved}
        assert sum(a != b for a, b in zip(on, after, strict=True)) <= moves
        assert steps < 9
        on = after
    (gone,) = marked
    assert gone not in after and steps <= 4


def test_marked_executor_stays_marked_when_another_has_less_to_do() -> None:
    busy_s = [1.0 if n % 4 else 0.9 for n in range(32)]
    first, memory, on = proposed(seen(ON, busy_s=busy_s), 3, ON, budget=2)
    assert first.sentence.startswith(
        "executor 0 is to go and gradually emptied: 2 of 8 state partitions leave now (100"
    )
    other = [0.1 if n % 4 == 1 else 1.0 for n in range(32)]
    second, _, after = proposed(seen(on, busy_s=other), 3, on, memory, budget=2)
    assert {a for a, b in zip(on, after, strict=True) if a != b} == {0}
    assert "2 of 6 state partitions leave now" in second.sentence


def test_marks_are_forgotten_when_the_scale_in_is_cancelled() -> None:
    busy_s = [1.0 if n % 4 else 0.9 for n in range(32)]
    _, memory, on = proposed(seen(ON, busy_s=busy_s), 3, ON, budget=2)
    assert memory["leaving"] == [0]
    kept, memory, _ = proposed(seen(on, busy_s=busy_s), 4, on, memory, budget=0)
    assert not kept.changes and "leaving" not in memory and memory["moved"]
    other = [0.1 if n % 4 == 1 else 1.0 for n in range(32)]
    _, _, after = proposed(seen(on, busy_s=other), 3, on, memory, budget=2)
    assert {a for a, b in zip(on, after, strict=True) if a != b} == {1}


def test_partition_larger_than_the_budget_leaves_alone() -> None:
    _, _, after = proposed(seen(ON), 3, ON, budget=10, cost="state")
    assert sum(a != b for a, b in zip(ON, after, strict=True)) == 1


def test_executor_with_state_of_unknown_size_is_emptied_within_the_budget() -> None:
    sizes = (*(1 * MB,) * 31, None)
    told = groups([1.0] * 31 + [0.5], ON, state_bytes=sizes)
    proposal, _, after = proposed(replace(seen(ON), partition_loads=told), 3, ON, budget=2)
    assert proposal.reason_code == "executors_draining"
    assert sum(a != b for a, b in zip(ON, after, strict=True)) == 2


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (seen(ON, size_mb=1), {}),  # a small state
        (seen(ON, size_mb=None), {"drain_mb": math.inf}),
        (seen(ON), {"drain_mb": 1000}),
        (seen(ON, slots=3), {}),  # its executors are gone
    ],
)
def test_otherwise_executors_are_emptied_at_once(given: Signals, options: dict[str, Any]) -> None:
    proposal, _, after = proposed(given, 3, ON, budget=2, **options)
    assert proposal.reason_code == "executors_changed" and len({*after}) == 3


class Fewer:
    """A tuner that wants three slots."""

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        change = Change(APP, SLOTS, current.apps[APP].slots, 3)
        changes = (change,) if change.before != 3 else ()
        proposal = Proposal("fewer", changes, "over_provisioned", "3 would do", {"throughput_rows_per_s": 9.0})
        return proposal, {"asked": memory.get("asked", 0) + 1}


OWNERS = {"slots": "fewer", "placement": "albic"}


def test_slots_are_lowered_with_the_last_partitions() -> None:
    current, memories = running(4, {FIRST: ON}), dict[str, Memory]()
    optimizers = {"fewer": Fewer(), "albic": Albic(PlacementOptions(budget=5))}
    found = collect_proposals(optimizers, seen(ON), current, memories, OWNERS)
    assert found.content.apps[APP].slots == 4 and "fewer" not in found.memories and found.predicted == {}
    assert {change.field for change in found.changes} == {"placement"} and len(found.changes) == 5
    assert [p.reason_code for p in found.proposals] == ["executors_draining"] * 2
    on = found.content.apps[APP].placement[FIRST]
    found = collect_proposals(optimizers, seen(on), found.content, found.memories, OWNERS)
    assert found.content.apps[APP].slots == 3 and found.memories["fewer"] == {"asked": 1}
    assert len({*found.content.apps[APP].placement[FIRST]}) == 3
