"""albic in the control loop: on which of an app's executors its state partitions run.

It runs after the tuner, so one Decision contains the number of executors and the partitions on each ([ALBIC], Section
4, its framework). New executors get their share, executors to be removed lose theirs, and the rest is balanced within
the budget. If there is nothing to gain, it places nothing, and the agent spreads partitions evenly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import NOWHERE, PLACEMENT, AppDeployment, Change, Deployment
from millrace.model.errors import MillraceError
from millrace.model.placement import (
    DRAINING,
    STATEFUL_BATCH,
    PartitionLoads,
    PlacementPlan,
    PotentialPlacement,
)
from millrace.model.signals import Signals
from millrace.optimizers.albic.cluster import Cluster, cluster
from millrace.optimizers.albic.draining import LEAVING, draining, leaving_executors, still_there, without_old_marks
from millrace.optimizers.albic.explanation import OPTIMAL, explain, explain_draining, explain_skew
from millrace.optimizers.albic.last_plan import DOUBT, Located, located, remember, resting, with_doubt
from millrace.optimizers.albic.options import PlacementOptions
from millrace.optimizers.albic.planning import plan_placement
from millrace.optimizers.albic.potential import FEWEST_BATCHES, LEAST_BATCHES, potential_placement
from millrace.optimizers.arrays import Ints
from millrace.optimizers.memory import number

NAME = "albic"
NOT_MEASURED, SETTLING, BAD_SIGNALS = "partitions_not_measured", "placement_settles", "bad_signals"
MOVES, RESIZED, BALANCED, SKEWED = "partitions_to_move", "executors_changed", "placement_stays", "skewed_keys"
LEAST_GAP = 0.01
"""Gap to the proven minimum, as a share of it, from which an exact search is worth its time."""
NOTHING: Ints = np.zeros(0, dtype=np.intp)
SKEW = 2.0
"""Multiple of an even share of its stage's time from which a partition is reported as skewed."""
SURE = 2.0
"""Standard errors that a gain has to exceed."""


class Albic:
    """Places state partitions.

    Args:
        options: Method, budget, limits.
    """

    Options = PlacementOptions

    def __init__(self, options: PlacementOptions) -> None:
        self.options = options

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Propose an executor for each state partition, with reasons; remember which were moved, and when.

        If the tuner counts on a plan, it need not save ``worth``.
        """
        if self.options.worth and signals.potential is not None and signals.potential.needed:
            return Albic(self.options.model_copy(update={"worth": 0.0})).propose(signals, current, memory)
        groups = signals.partition_loads
        app = None if groups is None else current.apps.get(groups.app)
        if groups is None or not groups.operator or app is None or app.executor is None:
            return Proposal(NAME, (), NOT_MEASURED, ""), memory
        memory = without_old_marks(memory, signals.app(groups.app), app)
        drained = self._drained(signals, groups, current, memory)
        if drained is not None:
            return drained
        executors, must = _executors(groups, app), _must_move(groups, app)
        at = located(groups.operator, groups.partition, executors)
        least = LEAST_BATCHES if self.options.worth else FEWEST_BATCHES  # without worth, the tuner counts on the plan
        unsettled = signals.settling or groups.batches < least or len({*executors} - {NOWHERE}) > app.executors
        if not must and unsettled:
            return Proposal(NAME, (), SETTLING, ""), memory
        try:
            options = self.options.model_copy(update={"budget": np.inf}) if must else self.options
            target = cluster(groups, executors, app.executors, app.slots_per_executor, options)
            fixed = NOTHING if must else self._fixed(at, memory, signals.until)
            plan = self._planned(groups, target, fixed)
        except MillraceError as error:
            return Proposal(NAME, (), BAD_SIGNALS, f"No state partition moves: {error}"), memory
        if not must:
            memory = with_doubt(memory, at, groups, plan.batch_before_s)
            if not self._pays(groups, target, plan, memory):
                first = self._first_of_several(groups, target, plan, fixed, memory)
                if first is None:
                    return _stay(groups, target), memory
                plan = first
        plan = self._polished(groups, target, plan, fixed)
        changes = _changes(groups, app, target, plan.after)
        if not changes:  # an executor without partitions may be the best that there is, or all was requested already
            return _stay(groups, target), memory
        changes += _released(groups, app, target) if must else ()
        code = RESIZED if must else MOVES
        proposal = Proposal(NAME, changes, code, explain(plan), {STATEFUL_BATCH: plan.batch_after_s})
        return replace(proposal, placement=plan), remember(plan, memory, signals.until, self.options.rest_s)

    def potential(self, signals: Signals, current: Deployment, memory: Memory) -> PotentialPlacement | None:
        """Return what placement alone would change, for the tuner; None if the tuner decides first."""
        if self.options.framework == "non_integrated":
            return None
        try:
            return potential_placement(Albic, self.options, signals, current, memory)
        except MillraceError:  # the proposal says so
            return None

    def plan(self, groups: PartitionLoads, app: AppDeployment, cores: int) -> PlacementPlan:
        """Return the best placement within the budget, whether or not it is worth its moves.

        Args:
            groups: The measured groups.
            app: Their current executors, and the number of executors.
            cores: Tasks that an executor runs at once, >= 1.

        Raises:
            MillraceError: If the measurements are not a valid load.
        """
        target = cluster(groups, _executors(groups, app), app.executors, cores, self.options)
        return self._polished(groups, target, self._planned(groups, target, NOTHING), NOTHING)

    def _drained(
        self, signals: Signals, groups: PartitionLoads, current: Deployment, memory: Memory
    ) -> tuple[Proposal, Memory] | None:
        """Propose to empty executors further that are to go; None if none are, or what they have left can move at once.

        [ALBIC] Section 4.3.1: the budget of a period bounds what leaves nodes that are marked for removal.
        """
        app, measured = current.apps[groups.app], signals.app(groups.app)
        if measured is None or measured.slots <= app.slots:  # executors that are gone already cannot be emptied
            return None
        try:
            target = cluster(groups, _executors(groups, app), app.executors, app.slots_per_executor, self.options)
            drain = draining(target, groups, self.options, memory.get(LEAVING))
            plan = None if drain is None else self._planned(groups, drain, NOTHING)
        except MillraceError:  # the proposal says so
            return None
        left = 0 if drain is None or plan is None else still_there(drain, plan)
        if drain is None or plan is None or not left:
            return None
        changes, leaving = _changes(groups, app, drain, plan.after), leaving_executors(drain)
        proposal = Proposal(NAME, changes, DRAINING, explain_draining(plan, leaving, left), placement=plan)
        learned = remember(plan, memory, signals.until, self.options.rest_s)
        return proposal, {**learned, LEAVING: list(leaving)}

    def _planned(self, groups: PartitionLoads, target: Cluster, fixed: Ints) -> PlacementPlan:
        node, stage = plan_placement(target, self.options.method, fixed, self.options.seed)
        return self._describe(groups, target, node, stage)

    def _polished(self, groups: PartitionLoads, target: Cluster, plan: PlacementPlan, fixed: Ints) -> PlacementPlan:
        """Return the plan as short as CP-SAT can make it, if there is anything to gain."""
        if not self.options.polish or plan.gap_ratio < LEAST_GAP:
            return plan
        if self.options.method == "albic" or plan.followed_s is not None:
            return plan  # as published; and a first plan of several need not be short
        from millrace.optimizers.albic.optimal_placement import improve, is_small  # OR-Tools takes long to import

        if not is_small(target):
            return plan
        given = np.array(plan.after, dtype=np.intp)
        node, proven = improve(target, given, fixed, self.options.seed)
        stages = [plan.stage] + ["polished"] * bool((node != given).any()) + [OPTIMAL] * proven
        return self._describe(groups, target, node, ", ".join(stages))

    def _first_of_several(
        self, groups: PartitionLoads, target: Cluster, plan: PlacementPlan, fixed: Ints, memory: Memory
    ) -> PlacementPlan | None:
        """Return a plan that is not worth its own moves, if it starts a larger plan that is worth all of them."""
        problem = target.problem
        left = problem.budget - problem.spent(np.array(plan.after))
        if not plan.moves or left >= problem.cost.min():  # a larger budget would change nothing
            return None
        whole = self._planned(groups, replace(target, problem=replace(problem, budget=np.inf)), fixed)
        plans = math.ceil(problem.spent(np.array(whole.after)) / problem.budget)
        pays = self._pays(groups, target, whole, memory, plans)
        return replace(plan, followed_s=whole.batch_after_s) if pays else None

    def _pays(
        self, groups: PartitionLoads, target: Cluster, plan: PlacementPlan, memory: Memory, plans: int = 1
    ) -> bool:
        """Return whether a plan, made of several, saves more than its moves cost and than measurement errors."""
        gain_s, whole_s = plan.batch_before_s - plan.batch_after_s, max(plan.batch_before_s, groups.batch_s or 0.0)
        moved = np.array(plan.before) != np.array(plan.after)
        error_s = float(np.sqrt((np.array(groups.busy_error_s)[moved] ** 2).sum())) / target.cores
        doubt_s = (number(memory.get(DOUBT), 0.0) or 0.0) * plan.batch_before_s
        return plan.moves > 0 and gain_s > max(plans * self.options.worth * whole_s, SURE * error_s, doubt_s)

    def _fixed(self, at: Located, memory: Memory, now: datetime) -> Ints:
        """Return the groups that were moved recently."""
        rest = resting(memory, at, now, self.options.rest_s)
        return np.array([i for i, key in enumerate(at) if key in rest], dtype=np.intp)

    def _describe(self, groups: PartitionLoads, target: Cluster, node: Ints, stage: str) -> PlacementPlan:
        problem = target.problem
        sizes = [groups.state_bytes[k] for k in problem.moved(node)]
        return PlacementPlan(
            method=self.options.method,
            executors=target.executors,
            operator=groups.operator,
            partition=groups.partition,
            busy_s=groups.busy_s,
            before=tuple(int(n) for n in problem.node),
            after=tuple(int(n) for n in node),
            cores=target.cores,
            batch_before_s=target.batch_s(problem.node),
            batch_after_s=target.batch_s(node),
            bound_s=target.bound_s(),
            state_bytes=sum(size or 0 for size in sizes) if None not in sizes else None,
            budget=problem.budget if np.isfinite(problem.budget) else None,
            stage=stage,
            seed=self.options.seed,
            near_before=problem.flows.near_share(problem.node),
            near_after=problem.flows.near_share(node),
            speeds=groups.speeds,
        )


def _stay(groups: PartitionLoads, target: Cluster) -> Proposal:
    """Return the proposal to leave everything as it is, with a note on skew that no placement can fix."""
    for stage in target.stages:
        load = target.problem.load[stage]
        heaviest = int(stage[np.argmax(load)])
        share = float(load.sum()) / target.even_cores
        if share > 0 and float(load.max()) > SKEW * share:
            fastest = float(target.problem.capacity[target.problem.kept].max())
            why = explain_skew(groups, heaviest, float(load.max() / load.sum()), float(load.max()) / fastest)
            return Proposal(NAME, (), SKEWED, why)
    return Proposal(NAME, (), BALANCED, "")


def _executors(groups: PartitionLoads, app: AppDeployment) -> tuple[int, ...]:
    """Return the executor of each group: the one in the Deployment, otherwise as measured.

    If as many executors as planned ran partitions, one in the Deployment that ran none does not exist.
    """
    ran = {*groups.executor} - {NOWHERE}
    all_ran = len(ran) >= app.executors
    named = (_named(app, *key) for key in zip(groups.operator, groups.partition, strict=True))
    return tuple(
        at if name == NOWHERE or (all_ran and name not in ran) else name
        for name, at in zip(named, groups.executor, strict=True)
    )


def _named(app: AppDeployment, operator: str, partition: int) -> int:
    executors = app.placement.get(operator, ())
    return executors[partition] if partition < len(executors) else NOWHERE


def _must_move(groups: PartitionLoads, app: AppDeployment) -> bool:
    """Return whether the placement in force names more executors than planned, or leaves out new ones."""
    named = {executor for operator in groups.operator for executor in app.placement.get(operator, ())} - {NOWHERE}
    if not named:  # a placement for a former query does not count
        return False
    useful = max(Counter(groups.operator).values())
    return len(named) > app.executors or len(named) < min(app.executors, useful)


def _changes(groups: PartitionLoads, app: AppDeployment, target: Cluster, node: Sequence[int]) -> tuple[Change, ...]:
    every = (
        Change(groups.app, PLACEMENT, _named(app, operator, partition), target.executors[at], operator, None, partition)
        for operator, partition, at in zip(groups.operator, groups.partition, node, strict=True)
    )
    return tuple(change for change in every if change.before != change.value)


def _released(groups: PartitionLoads, app: AppDeployment, target: Cluster) -> tuple[Change, ...]:
    """Return changes that let partitions without a measurement run anywhere if the plan does not keep their executor.

    Their query is idle or no longer exists. If such an executor stayed in the placement, the agent might keep it
    instead of one that the plan uses.
    """
    measured = {*zip(groups.operator, groups.partition, strict=True)}
    kept = {NOWHERE, *(target.executors[node] for node in target.problem.kept)}
    return tuple(
        Change(groups.app, PLACEMENT, executor, NOWHERE, operator, None, partition)
        for operator, executors in app.placement.items()
        for partition, executor in enumerate(executors)
        if (operator, partition) not in measured and executor not in kept
    )
