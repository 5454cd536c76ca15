"""What albic remembers of its last plan: which groups it moved, when, and by how much it missed its prediction.

This counts only if the plan was carried out. A plan that a guard or a person vetoed has moved nothing, and missed
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from millrace.model.decision import Memory
from millrace.model.deployment import NOWHERE
from millrace.model.placement import PartitionLoads, PlacementPlan, batch_growth, other_keys_are_hot
from millrace.optimizers.memory import mapping, number

MOVED, EXECUTORS, PLANNED, LOADS, DOUBT = "moved", "executors", "planned_s", "busy_s", "doubt"
"""Keys in the memory: when groups were moved, each group's executor under the plan, T under it, each group's load, and
the share that it missed T by."""
MOST_DOUBT = 0.2
"""Upper limit of the share of a batch that a gain has to exceed because the last plan missed."""

Located = Mapping[str, int]
"""Executor of each group, by key."""


def located(operators: Sequence[str], partitions: Sequence[int], executors: Sequence[int]) -> Located:
    """Return the executor of each group, in the same order."""
    return dict(zip(_keys(operators, partitions), executors, strict=True))


def remember(plan: PlacementPlan, memory: Memory, now: datetime, rest_s: float) -> Memory:
    """Return the memory of a new plan.

    Args:
        plan: The plan.
        memory: The present memory.
        now: When groups are moved (UTC).
        rest_s: How long moved groups rest, seconds.
    """
    before = [plan.executors[node] if node >= 0 else NOWHERE for node in plan.before]
    after = [plan.executors[node] for node in plan.after]
    was, planned = (located(plan.operator, plan.partition, numbers) for numbers in (before, after))
    moved = {key: now.isoformat() for key in planned if planned[key] != was[key]}
    return {
        MOVED: {**resting(memory, was, now, rest_s), **moved},
        EXECUTORS: planned,
        PLANNED: plan.batch_after_s,
        LOADS: dict(zip(planned, plan.busy_s, strict=True)),
    }


def resting(memory: Memory, at: Located, now: datetime, rest_s: float) -> Mapping[str, str]:
    """Return when each group that still has to rest was moved."""
    since = (now - timedelta(seconds=rest_s)).isoformat()
    stored, planned = mapping(memory.get(MOVED)), mapping(memory.get(EXECUTORS))
    moved = {key: time for key, time in stored.items() if isinstance(time, str) and time > since}
    return {key: time for key, time in moved.items() if key not in planned or planned[key] == at.get(key)}


def with_doubt(memory: Memory, at: Located, groups: PartitionLoads, found_s: float) -> Memory:
    """Return the memory with the share by which the last plan missed, once it was carried out and measured.

    The best of many plans is usually one that its figures flatter. Without this doubt, plans would move partitions
    forever.
    """
    planned_s, planned = number(memory.get(PLANNED), 0.0), mapping(memory.get(EXECUTORS))
    if not planned_s or not planned or DOUBT in memory or any(at.get(key) != on for key, on in planned.items()):
        return memory
    loads = mapping(memory.get(LOADS))
    former = [number(loads.get(key), 0.0) or 0.0 for key in at]
    missed = min(max(0.0, found_s / (planned_s * batch_growth(former, groups.busy_s)) - 1), MOST_DOUBT)
    # if other keys have become hot, the miss was not the plan's fault
    return {**memory, DOUBT: 0.0 if other_keys_are_hot(former, groups.busy_s) else missed}


def _keys(operators: Sequence[str], partitions: Sequence[int]) -> list[str]:
    return [f"{operator}/{partition}" for operator, partition in zip(operators, partitions, strict=True)]
