"""The potential plan of the framework: what placement alone would change, before anyone decides on slots.

Symbols:
    T    time of the stateful stages of a batch, seconds
    e_n  even share: T if n executors could divide every stage perfectly, seconds

[ALBIC] plans first, and adds nodes only if one is overloaded even under the plan. It removes nodes only if the others
can be balanced (Section 4.1, Algorithm 1, lines 4-5). Here the first question is answered with T before and after the
plan, and the second one with e_n / T_n, T_n being the best placement on n executors at any price.

Deviation: [ALBIC] calls nodes balanced if their load distance is small. A batch waits for the executor that finishes
last, and if one partition decides how long that takes, fewer executors may take just as long. So the tuner gets e_n /
T_n, and multiplies what it expects of fewer slots by it.

Reference: [ALBIC] Madsen, Zhou and Cao, 2016, Sections 4.1 and 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import NOWHERE, AppDeployment, Deployment
from millrace.model.placement import PartitionLoads, PlacementPlan, PotentialPlacement
from millrace.model.signals import Signals
from millrace.optimizers.albic.limits import fits
from millrace.optimizers.albic.options import PlacementOptions

FEWEST_BATCHES = 2
"""Measured batches that are enough for a plan that the tuner counts on."""
LEAST_BATCHES = 3
"""Measured batches needed before anything else is moved for balance, or before there is known to be no plan."""
MOST_EXECUTORS = 32
"""Up to this many executors, placements on fewer are worked out: each takes a search."""
NAMED = 3
"""Most partitions that a sentence names."""


class Placer(Protocol):
    """Plans placements: :class:`millrace.optimizers.albic.optimizer.Albic`."""

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Return the placement that would be carried out."""
        ...

    def plan(self, groups: PartitionLoads, app: AppDeployment, cores: int) -> PlacementPlan:
        """Return the best placement within the budget on an app's executors."""
        ...


Make = Callable[[PlacementOptions], Placer]


def potential_placement(
    make: Make, options: PlacementOptions, signals: Signals, current: Deployment, memory: Memory
) -> PotentialPlacement | None:
    """Return what placement alone would change; None if the app has no state partitions or no executors.

    Args:
        make: Makes the planner of placements.
        options: Its options. The plan is the one to be carried out if the tuner counts on it, without the exact search
            (``polish``). It may save less than ``worth``: if more rows arrive than in the measured batches, it saves
            more than they show.
        signals: Signals of this evaluation.
        current: The Deployment.
        memory: The planner's memory.

    Raises:
        MillraceError: If the measurements are not a valid load.
    """
    groups = signals.partition_loads
    app = None if groups is None else current.apps.get(groups.app)
    if groups is None or not groups.operator or app is None or app.executor is None:
        return None
    cores = app.slots_per_executor
    found = PotentialPlacement(groups.app, app.slots, cores, batch_s=groups.batch_s)
    if signals.settling or groups.batches < FEWEST_BATCHES:
        return replace(found, known=False)
    quick = options.model_copy(update={"polish": False, "worth": 0.0})
    plan = make(quick).propose(signals, current, memory)[0].placement
    if plan is None and groups.batches < LEAST_BATCHES:
        return replace(found, known=False)
    now_s = groups.stateful_batch_s(cores) if plan is None else plan.batch_before_s
    if now_s <= 0:
        return None
    found = replace(found, now_s=now_s, planned_s=now_s)
    if plan is not None and plan.followed_s is None and plan.batch_after_s < now_s:
        pays = now_s - plan.batch_after_s > options.worth * max(now_s, groups.batch_s or 0.0)
        found = replace(found, planned_s=plan.batch_after_s, cause=cause(plan), pays=pays)
    return replace(
        found,
        even_ratio=min(1.0, even_s(groups, groups.executor, app.executors, cores) / now_s),
        fewer=spread_on_fewer(make, quick, groups, app),
        heaviest=_heaviest(groups),
    )


def even_s(groups: PartitionLoads, used: Iterable[int], executors: int, cores: int) -> float:
    """Return e_n, seconds.

    Args:
        groups: The measured groups.
        used: Numbers of the executors that have groups; others count as average ones.
        executors: n, >= 1.
        cores: Cores of each.
    """
    known = {*used} - {NOWHERE}
    speed = sum(map(groups.speeds.of, known)) + max(0, executors - len(known))
    return sum(groups.busy_s) / (speed * cores)


def spread_on_fewer(
    make: Make, options: PlacementOptions, groups: PartitionLoads, app: AppDeployment
) -> tuple[float, ...]:
    """Return e_n / T_n on 1, 2, ... executors, up to one fewer than now; 0 if a limit of an executor is exceeded.

    Args:
        make: Makes the planner of placements.
        options: Its options; their budget does not count.
        groups: The measured groups.
        app: Their app.
    """
    if app.executors > MOST_EXECUTORS:
        return ()
    cores, free = app.slots_per_executor, make(options.model_copy(update={"budget": float("inf")}))
    found = []
    for executors in range(1, app.executors):
        plan = free.plan(groups, replace(app, slots=executors * cores), cores)
        on = [plan.executors[node] for node in plan.after]
        ratio = even_s(groups, on, executors, cores) / plan.batch_after_s
        # groups that fit nowhere else stay where they are
        held = len({*on}) <= executors and fits(groups, plan, options)
        found.append(min(1.0, ratio) if held else 0.0)
    return tuple(found)


def cause(plan: PlacementPlan) -> str:
    """Say which partitions make a batch slow, and what moving some of them does.

    For example: partitions 3, 7 and 12 of delays/0 make executor 2 the slowest, and moving 2 state partitions shortens
    the stateful part of a batch from 3.2 to 2.4 s.
    """
    operator = _stage_that_loses_most(plan)
    of_stage = [i for i, name in enumerate(plan.operator) if name == operator]
    busy = {
        node: sum(plan.busy_s[i] for i in of_stage if plan.before[i] == node) for node in range(len(plan.executors))
    }
    speed = [plan.speeds.of(executor) for executor in plan.executors]
    slowest = max(busy, key=lambda node: busy[node] / speed[node])
    own = sorted((i for i in of_stage if plan.before[i] == slowest), key=lambda i: -plan.busy_s[i])
    share_s = sum(plan.busy_s[i] for i in of_stage) / len(of_stage)
    hot = [i for i in own[:NAMED] if plan.busy_s[i] > share_s] or own[:1]
    partitions = _listed(sorted(plan.partition[i] for i in hot))
    noun, verb = ("partition", "makes") if len(hot) == 1 else ("partitions", "make")
    moves = "1 state partition" if plan.moves == 1 else f"{plan.moves} state partitions"
    return (
        f"{noun} {partitions} of {operator} {verb} executor {plan.executors[slowest]} the slowest, and moving {moves} "
        f"shortens the stateful part of a batch from {plan.batch_before_s:.1f} to {plan.batch_after_s:.1f} s"
    )


def _stage_that_loses_most(plan: PlacementPlan) -> str:
    """Return the operators of the stage that waits longest for its slowest executor, beyond an even share."""

    def lost_s(operator: str) -> float:
        busy = [0.0] * len(plan.executors)
        for name, at, seconds in zip(plan.operator, plan.before, plan.busy_s, strict=True):
            if name == operator and at >= 0:
                busy[at] += seconds
        return max(busy) - sum(busy) / len(busy)

    return max(dict.fromkeys(plan.operator), key=lost_s)


def _heaviest(groups: PartitionLoads) -> str:
    at = max(range(len(groups.busy_s)), key=lambda i: groups.busy_s[i])
    return f"partition {groups.partition[at]} of {groups.operator[at]} alone takes {groups.busy_s[at]:.1f} s of a batch"


def _listed(numbers: Sequence[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} and {last}" if first else last
