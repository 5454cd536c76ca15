"""albic in the loop: where key groups are to sit, as advice.

Key groups cannot be moved between running apps yet, so a plan is made for nodes that the spec names. What was advised
is remembered and counts as done: the next profile is planned from there, as if the advice had been followed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from include.model.decision import Memory, Proposal
from include.model.deployment import Deployment
from include.model.errors import MillraceError
from include.model.placement import KeyGroups, PlacementPlan
from include.model.signals import Signals
from optimizers.albic.advice.measured import Measured, keys, measured
from optimizers.albic.advice.options import STATE, Options
from optimizers.albic.plan import Plan, effect
from optimizers.albic.problem import Problem

NAME = "albic"
FIRST, MOVES, BALANCED = "first_placement", "groups_to_move", "placement_stays"
NO_PROFILE, BAD_SIGNALS = "no_new_profile", "bad_signals"


class Adviser:
    """Places key groups.

    Args:
        options: Nodes, method, budget.
    """

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Say where the key groups should sit and why, and remember it."""
        groups = signals.key_groups
        if groups is None or memory.get("version") == groups.version or not groups.operator:
            return Proposal(NAME, (), NO_PROFILE, ""), memory
        try:
            found = measured(groups, self._placed(groups, memory), self.options)
            plan = PLANNERS[self.options.method](found.problem, self.options.seed)
        except MillraceError as error:
            return Proposal(NAME, (), BAD_SIGNALS, f"Key groups stay: {error}"), memory
        told = self._told(groups, found, plan)
        kept = {"version": groups.version, "nodes": dict(zip(keys(groups), told.after, strict=True))}
        if not told.moves and not told.placed:
            words = f"Key groups stay: load distance {told.distance_after:.1f}, proven minimum {told.bound:.1f}"
            return Proposal(NAME, (), BALANCED, words), kept
        code = MOVES if told.moves else FIRST
        return Proposal(NAME, (), code, self._sentence(told), _predicted(told), placement=told), kept

    def _placed(self, groups: KeyGroups, memory: Memory) -> Mapping[str, int]:
        """Return the node of each group as far as it was advised and still exists."""
        known = memory.get("nodes")
        nodes = len(self.options.workers)
        advised = known.items() if isinstance(known, Mapping) else ()
        return {key: node for key, node in advised if isinstance(node, int) and 0 <= node < nodes}

    def _told(self, groups: KeyGroups, found: Measured, plan: Plan) -> PlacementPlan:
        problem, options = found.problem, self.options
        changed = effect(problem, plan)
        pairs = problem.together(plan.node) & ~problem.together(problem.node)
        return PlacementPlan(
            method=options.method,
            resource=found.resource,
            nodes=tuple(f"worker-{i + 1}" for i in range(len(options.workers))),
            operator=groups.operator,
            key_group=groups.key_group,
            load=_floats(problem.own(plan.node)),
            before=tuple(int(n) for n in problem.node),
            after=tuple(int(n) for n in plan.node),
            loads_before=_floats(changed.loads[0]),
            loads_after=_floats(changed.loads[1]),
            distance_before=changed.distance[0],
            distance_after=changed.distance[1],
            bound=plan.bound,
            collocation_before=changed.collocation[0],
            collocation_after=changed.collocation[1],
            pairs=int(np.count_nonzero(pairs & (problem.flows.saved > 0))),
            spent=changed.spent,
            budget=options.budget if np.isfinite(options.budget) else None,
            stage=plan.stage,
            seed=plan.seed,
        )

    def _sentence(self, told: PlacementPlan) -> str:
        """Return the plan for a person."""
        size = f", {told.spent:,.0f} MB" if self.options.cost == STATE else ""
        steps = [f"move {told.moves} key groups{size}"] if told.moves else []
        steps += [f"place {told.placed} key groups on {len(told.nodes)} workers"] if told.placed else []
        reached = f"load distance {told.distance_after:.1f}"
        if told.moves:
            reached = f"load distance {told.distance_before:.1f} -> {told.distance_after:.1f}"
        kept = (
            f"{100 * told.collocation_before:.0f} -> {100 * told.collocation_after:.0f} % of rows stay on their worker"
        )
        return f"{' and '.join(steps)}; {reached}, proven minimum {told.bound:.1f}; {kept}"


def _predicted(told: PlacementPlan) -> Mapping[str, float]:
    return {"load_distance_points": told.distance_after, "collocation_ratio": told.collocation_after}


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(v) for v in values)


def _joint(problem: Problem, seed: int) -> Plan:
    from optimizers.albic.joint.search import place

    return place(problem, seed=seed)


def _albic(problem: Problem, seed: int) -> Plan:
    from optimizers.albic.paper.albic import place
    from optimizers.albic.paper.options import CORRECTED

    # the paper has nothing for groups that have no node yet
    return _joint(problem, seed) if (problem.node < 0).all() else place(problem, seed=seed, options=CORRECTED)


def _balancer(problem: Problem, seed: int) -> Plan:
    from optimizers.albic.balance.balancer import balance

    return balance(problem, seed=seed)


PLANNERS: Mapping[str, Callable[[Problem, int], Plan]] = {"joint": _joint, "albic": _albic, "balancer": _balancer}
"""Imported when asked for: solvers take a second to load."""
