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
from optimizers.albic.measured_problem import MeasuredProblem, group_keys, measured_problem
from optimizers.albic.options import PlacementOptions
from optimizers.albic.problem import Plan, Problem

NAME = "albic"
FIRST, MOVES, BALANCED = "first_placement", "groups_to_move", "placement_stays"
NO_PROFILE, BAD_SIGNALS = "no_new_profile", "bad_signals"


class Albic:
    """Places key groups.

    Args:
        options: Nodes, method, budget.
    """

    Options = PlacementOptions

    def __init__(self, options: PlacementOptions) -> None:
        self.options = options

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Say where the key groups should sit and why, and remember it."""
        groups = signals.key_groups
        if groups is None or memory.get("version") == groups.version or not groups.operator:
            return Proposal(NAME, (), NO_PROFILE, ""), memory
        try:
            measured = measured_problem(groups, self._advised(memory), self.options)
            plan = PLANNERS[self.options.method](measured.problem, self.options.seed)
        except MillraceError as error:
            return Proposal(NAME, (), BAD_SIGNALS, f"Key groups stay: {error}"), memory
        placement = self._placement(groups, measured, plan)
        memory = {"version": groups.version, "nodes": dict(zip(group_keys(groups), placement.after, strict=True))}
        if not placement.moves and not placement.placed:
            reached = f"load distance {placement.distance_after:.1f}, proven minimum {placement.bound:.1f}"
            return Proposal(NAME, (), BALANCED, f"Key groups stay: {reached}"), memory
        code = MOVES if placement.moves else FIRST
        predicted = {
            "load_distance_points": placement.distance_after,
            "collocation_ratio": placement.collocation_after,
        }
        return Proposal(NAME, (), code, self._explain(placement), predicted, placement=placement), memory

    def _advised(self, memory: Memory) -> Mapping[str, int]:
        """Return the node of each group as far as one was advised that still exists."""
        stored = memory.get("nodes")
        nodes = len(self.options.workers)
        advised = stored.items() if isinstance(stored, Mapping) else ()
        return {key: node for key, node in advised if isinstance(node, int) and 0 <= node < nodes}

    def _placement(self, groups: KeyGroups, measured: MeasuredProblem, plan: Plan) -> PlacementPlan:
        problem, options = measured.problem, self.options
        before, after = problem.node, plan.node
        pairs = problem.together(after) & ~problem.together(before)
        return PlacementPlan(
            method=options.method,
            resource=measured.resource,
            nodes=tuple(f"worker-{i + 1}" for i in range(len(options.workers))),
            operator=groups.operator,
            key_group=groups.key_group,
            load=_floats(problem.own(after)),
            before=tuple(int(n) for n in before),
            after=tuple(int(n) for n in after),
            loads_before=_floats(problem.loads(before)),
            loads_after=_floats(problem.loads(after)),
            distance_before=problem.distance(before),
            distance_after=problem.distance(after),
            bound=plan.bound,
            collocation_before=problem.collocation(before),
            collocation_after=problem.collocation(after),
            pairs=int(np.count_nonzero(pairs & (problem.flows.saved > 0))),
            spent=problem.spent(after),
            budget=options.budget if np.isfinite(options.budget) else None,
            stage=plan.stage,
            seed=plan.seed,
        )

    def _explain(self, plan: PlacementPlan) -> str:
        """Return the plan for a person."""
        size = f", {plan.spent:,.0f} MB" if self.options.cost == "state" else ""
        steps = [f"move {plan.moves} key groups{size}"] if plan.moves else []
        steps += [f"place {plan.placed} key groups on {len(plan.nodes)} workers"] if plan.placed else []
        reached = f"load distance {plan.distance_after:.1f}"
        if plan.moves:
            reached = f"load distance {plan.distance_before:.1f} -> {plan.distance_after:.1f}"
        kept = (
            f"{100 * plan.collocation_before:.0f} -> {100 * plan.collocation_after:.0f} % of rows stay on their worker"
        )
        return f"{' and '.join(steps)}; {reached}, proven minimum {plan.bound:.1f}; {kept}"


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(v) for v in values)


def _joint(problem: Problem, seed: int) -> Plan:
    from optimizers.albic.joint_search import place

    return place(problem, seed=seed)


def _albic(problem: Problem, seed: int) -> Plan:
    from optimizers.albic.paper.albic import place
    from optimizers.albic.paper.options import CORRECTED

    # the paper has nothing for groups that have no node yet
    return _joint(problem, seed) if (problem.node < 0).all() else place(problem, seed=seed, options=CORRECTED)


def _balancer(problem: Problem, seed: int) -> Plan:
    from optimizers.albic.balancer import balance

    return balance(problem, seed=seed)


PLANNERS: Mapping[str, Callable[[Problem, int], Plan]] = {"joint": _joint, "albic": _albic, "balancer": _balancer}
"""Imported when asked for: solvers take a second to load."""
