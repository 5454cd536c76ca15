"""Empty executors that are to go, within the budget of each evaluation: the kill marks of [ALBIC].

Nothing but the plan says how far that is: once no partition is left on a marked executor, the slots can be lowered.
While the tuner keeps wanting fewer slots, the same executors stay marked, even if others have less to do by then. Once
it wants as many as there are, marks are forgotten.

Reference: [ALBIC] Madsen, Zhou and Cao, 2016, Sections 4.1 (Algorithm 1, lines 1-3) and 4.3.1 (horizontal scale-in).
Deviations: a small state leaves at once, since idle executors cost more; a state of unknown size counts as large; and
at least one partition leaves in each evaluation, however small the budget is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from millrace.model.deployment import AppDeployment
from millrace.model.placement import PartitionLoads, PlacementPlan
from millrace.optimizers.albic.cluster import Cluster
from millrace.optimizers.albic.limits import MB
from millrace.optimizers.albic.options import PlacementOptions
from millrace.optimizers.api import AppSignals, Memory
from millrace.optimizers.memory import items

LEAVING = "leaving"
"""Key of the marked executors in the memory."""


def draining(target: Cluster, groups: PartitionLoads, options: PlacementOptions, marked: object) -> Cluster | None:
    """Return the cluster with a budget for emptying its marked executors; None if they can be emptied at once.

    Args:
        target: The cluster with the executors that there will be; it marks the ones with least to do.
        groups: The measured groups.
        options: The budget, and what may leave at once.
        marked: Numbers of the executors that were marked before, as stored.
    """
    problem = target.problem
    before = [number for number in items(marked) if number in target.executors]
    removed = problem.removed
    if len({*before}) == int(removed.sum()):
        removed = np.isin(np.array(target.executors), before)
    theirs = np.flatnonzero(removed[problem.node] & (problem.node >= 0))
    sizes = [groups.state_bytes[group] for group in theirs]
    state_bytes = np.inf if None in sizes else sum(size or 0 for size in sizes)
    if not len(theirs) or state_bytes <= options.drain_mb * MB:
        return None
    budget = max(options.budget, float(problem.cost[theirs].min()))
    return replace(target, problem=replace(problem, removed=removed, budget=budget))


def without_old_marks(memory: Memory, measured: AppSignals | None, app: AppDeployment) -> Memory:
    """Return the memory without the marks of a scale-in that was called off."""
    if LEAVING not in memory or measured is None or measured.slots > app.slots:
        return memory
    return {key: value for key, value in memory.items() if key != LEAVING}


def still_there(drain: Cluster, plan: PlacementPlan) -> int:
    """Return how many groups are on marked executors under a plan."""
    return int(drain.problem.removed[np.array(plan.after, dtype=np.intp)].sum())


def leaving_executors(drain: Cluster) -> tuple[int, ...]:
    """Return the numbers of the marked executors."""
    return tuple(number for number, gone in zip(drain.executors, drain.problem.removed, strict=True) if gone)
