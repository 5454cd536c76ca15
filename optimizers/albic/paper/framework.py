"""The adaptation framework: when nodes are added and removed, and the plan for it ([ALBIC], Section 4.1, Algorithm 1).

A period:
1. Marked nodes that are empty are terminated.
2. A potential plan is made for the existing nodes.
3. The scale decision looks at the cluster as it would be under that plan.
   Out: only if a node would still be overloaded. Marked nodes are taken back before new ones are requested.
   In: only if the remaining nodes can be balanced without overload, however long draining takes. The emptiest nodes are
   marked; fewer than requested if that many cannot be spared.
4. After a decision the plan is made again, for the cluster as it will be: new nodes are empty, and nothing goes to
   marked ones. The planner decides what is urgent and what can wait.

A :data:`NeededCapacity` decides how many nodes are needed ([ALBIC], Section 4.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from millrace.optimizers.albic.problem import Bools, Caps, Ints, Plan, Problem
from millrace.optimizers.api import MillraceError, Options

Planner = Callable[[Problem], Plan]
"""A placement method: the joint search, ALBIC, the balancer."""
NeededCapacity = Callable[[Problem, Ints], float]
"""Capacity that a problem needs under a placement, in nodes of capacity 1, > 0."""


class ScalingLimits(Options):
    """When to scale.

    Attributes:
        overload: Load of a node, points, beyond which it is overloaded, > 0.
        max_distance: Load distance that nodes must be able to keep after scaling in, points, > 0.
        capacity: Capacity of a new node, > 0.
        most: Most nodes; None for no limit.
        least: Fewest nodes, >= 1.
    """

    section: ClassVar[str] = "limits"

    overload: float = Field(90.0, gt=0)
    max_distance: float = Field(10.0, gt=0)
    capacity: float = Field(1.0, gt=0)
    most: int | None = Field(None, ge=1)
    least: int = Field(1, ge=1)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.most is not None and self.most < self.least:
            remedy = "Raise limits.most or lower limits.least."
            raise MillraceError("limits.least", self.least, f"<= limits.most = {self.most}", remedy)
        return self


def to_target(points: float) -> NeededCapacity:
    """Return the sizing that gives nodes this mean load.

    Args:
        points: > 0.
    """
    if not (points > 0 and math.isfinite(points)):
        raise MillraceError("sizing.target", points, "> 0", "Set the wanted load of a node.")

    def sized(problem: Problem, node: Ints) -> float:
        return float(problem.loads(node) @ problem.capacity) / points

    return sized


@dataclass(frozen=True)
class Adaptation:
    """Changes for a period. Nodes have their numbers in the given problem.

    Attributes:
        terminate: Empty marked nodes, to be given back now.
        add: New nodes to start.
        mark: Nodes to mark for removal that were not.
        unmark: Marked nodes that stay after all.
        problem: The planned problem: without ``terminate``, new nodes last.
        origin: Former number of each of its nodes, shape (N',); :data:`NEW` for new ones.
        plan: The plan for it.
        reason: Why nodes are added or removed, or not; one sentence.
    """

    terminate: Ints
    add: int
    mark: Ints
    unmark: Ints
    problem: Problem
    origin: Ints
    plan: Plan
    reason: str


NEW = -1
"""Origin of a node that does not exist yet."""


def adapt(
    problem: Problem, planner: Planner, sizing: NeededCapacity, limits: ScalingLimits | None = None
) -> Adaptation:
    """Return the changes for a period.

    Args:
        problem: The cluster now; marked nodes are ``removed``.
        planner: Makes plans.
        sizing: Returns how much capacity is needed.
        limits: When to scale.
    """
    limits = limits or ScalingLimits()
    left, origin, terminate = _without_empty(problem)
    potential = planner(left)
    wanted = sizing(left, potential.node)
    kept = float(left.capacity[left.kept].sum())
    hottest = float(left.loads(potential.node)[left.kept].max())
    if hottest > limits.overload and wanted > kept:
        scaled, extra = _out(left, wanted, limits)
        reason = f"{hottest:.0f} points on a node even after the plan, more than {limits.overload:g}"
        reason += "" if scaled is not left else ", but no more nodes are available"
        new = np.concatenate([origin, np.full(extra, NEW, dtype=np.intp)])
    else:
        scaled, reason = _in(left, wanted, planner, limits)
        new, extra = origin, 0
    changed = scaled is not left
    before = np.append(left.removed, np.zeros(extra, dtype=bool))
    return Adaptation(
        terminate=terminate,
        add=extra,
        mark=new[scaled.removed & ~before],
        unmark=new[before & ~scaled.removed],
        problem=scaled,
        origin=new,
        plan=planner(scaled) if changed else potential,
        reason=reason,
    )


def emptiest(problem: Problem, count: int) -> Ints:
    """Return the kept nodes with the least load to move, in ascending order, shape (count,)."""
    kept = problem.kept
    loads = problem.loads(problem.node)[kept] * problem.capacity[kept]
    return kept[np.argsort(loads, kind="stable")][: max(0, count)]


def _without_empty(problem: Problem) -> tuple[Problem, Ints, Ints]:
    """Return the problem without empty marked nodes, the former numbers of its nodes, and the removed nodes."""
    used = np.bincount(problem.node[problem.node >= 0], minlength=problem.nodes) > 0
    gone = problem.removed & ~used
    stays = np.flatnonzero(~gone)
    if not gone.any():
        return problem, stays, np.flatnonzero(gone)
    number = np.cumsum(~gone) - 1
    caps = problem.caps
    smaller = replace(
        problem,
        node=np.where(problem.node >= 0, number[problem.node], problem.node),
        capacity=problem.capacity[stays],
        removed=problem.removed[stays],
        caps=None if caps is None else Caps(caps.load, caps.limit[:, stays]),
    )
    return smaller, stays, np.flatnonzero(gone)


def _out(problem: Problem, wanted: float, limits: ScalingLimits) -> tuple[Problem, int]:
    """Return the problem with more room, and how many of its nodes are new."""
    removed = problem.removed.copy()
    missing = wanted - float(problem.capacity[~removed].sum())
    # the fullest first: groups that are still there need not move
    count = np.bincount(problem.node[problem.node >= 0], minlength=problem.nodes)
    for node in sorted(np.flatnonzero(removed), key=lambda i: (-count[i], i)):
        if missing <= 0:
            break
        removed[node] = False
        missing -= float(problem.capacity[node])
    extra = max(0, math.ceil(missing / limits.capacity))
    if limits.most is not None:
        extra = max(0, min(extra, limits.most - problem.nodes))
    if extra == 0 and (removed == problem.removed).all():
        return problem, 0
    caps = problem.caps
    if caps is not None and extra:
        # a new node is like the typical one in everything else
        typical = np.repeat(np.median(caps.limit, axis=1, keepdims=True), extra, axis=1)
        caps = Caps(caps.load, np.concatenate([caps.limit, typical], axis=1))
    return replace(
        problem,
        capacity=np.append(problem.capacity, np.full(extra, limits.capacity)),
        removed=np.append(removed, np.zeros(extra, dtype=bool)),
        caps=caps,
    ), extra


def _in(problem: Problem, wanted: float, planner: Planner, limits: ScalingLimits) -> tuple[Problem, str]:
    """Return the problem with spare nodes marked, and why these and no more."""
    spare = _spare(problem, wanted, limits)
    if not len(spare):
        return problem, "no node can be spared"
    for count in range(len(spare), 0, -1):
        removed = problem.removed.copy()
        removed[spare[:count]] = True
        smaller = replace(problem, removed=removed)
        if _holds(smaller, planner, limits):
            asked = " nodes" if count == len(spare) else f" of {len(spare)} nodes with little load"
            return smaller, f"{count}{asked} can be removed"
    return problem, f"{len(spare)} nodes could be spared by their load, but the others could not be balanced then"


def _spare(problem: Problem, wanted: float, limits: ScalingLimits) -> Ints:
    """Return the nodes that capacity does not need, the emptiest first because it has the least to move, shape (S,)."""
    kept = problem.kept
    left = float(problem.capacity[kept].sum())
    spare: list[int] = []
    for node in emptiest(problem, len(kept)):
        if left - problem.capacity[node] < wanted or len(kept) - len(spare) <= limits.least:
            break
        left -= float(problem.capacity[node])
        spare.append(int(node))
    return np.array(spare, dtype=np.intp)


def _holds(problem: Problem, planner: Planner, limits: ScalingLimits) -> bool:
    """Return whether the remaining nodes can be balanced once draining is over, without overload."""
    node = planner(replace(problem, budget=math.inf)).node
    emptied: Bools = ~problem.removed[node]
    loads = problem.loads(node)[problem.kept]
    return bool(emptied.all() and loads.max() <= limits.overload and problem.distance(node) <= limits.max_distance)
