"""Input of a joint search: the problem with its flows, prices and target, and the worth of a placement.

Collocated groups that bind one another can be contracted to one group. Once a group has found its partner, neither can
move alone without losing more than it gains; together they can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from millrace.optimizers.albic.contraction import contract, numbered, total
from millrace.optimizers.albic.joint_prices import Prices, prices
from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.albic.savings import Edges, Savings, edges
from millrace.optimizers.albic.target import LOOSE, Target, kept_units
from millrace.optimizers.arrays import Bools, Floats, Ints

LEAST = 1e-9
"""Least weight of a stage, and least load of a job: both are divided by."""
MOST_LANES = 500_000
"""Groups times stages up to which stages are told apart; beyond, only the sum over all stages is balanced."""
FREE = 1e-6
"""Price of a unit whose groups all move anyway, as a share of the cheapest group's: prices must be above 0."""


@dataclass(frozen=True)
class SearchContext:
    """Everything that stays the same during a search.

    Attributes:
        problem: The problem.
        lanes: Load of each group in each stage while none of its partners is near, points, shape (S, K): a group has
            one stage, a unit of groups may have several.
        weight: Share of all load that each stage has, shape (S,), > 0.
        edges: Its flows.
        heavy: Indices of the edges that are worth following, shape (H,).
        prices: Its prices.
        fixed: Groups that must not leave their first node, shape (K,).
        target: Long-term placement of the groups; None without.
    """

    problem: Problem
    lanes: Floats
    weight: Floats
    edges: Edges
    heavy: Ints
    prices: Prices
    fixed: Bools
    target: Target | None = None

    def deviation(self, x: Floats) -> Floats:
        """Return the price of deviations from a stage's mean, points, shape (S, M).

        Args:
            x: Deviations, points, shape (S, M). A stage with half of the load has half of the points, and is judged as
                a whole job with half of the weight.
        """
        weight = self.weight[:, None]
        return np.asarray(weight * self.prices.deviation(x / weight))


@dataclass(frozen=True)
class PlacementState:
    """A placement with its savings and loads.

    Attributes:
        node: Node of each group, shape (K,).
        saved: S of each group at its own node, shape (S, K).
        savings: S.
        raw: Load of each node in each stage, not divided by capacity, shape (S, N).
        mean: Mean of the kept nodes in each stage, points, shape (S, 1).
    """

    node: Ints
    saved: Floats
    savings: Savings
    raw: Floats
    mean: Floats

    @property
    def worth(self) -> float:
        """What the placement saves in all, points."""
        return float(self.saved.sum()) / 2  # each flow has two ends


def search_context(problem: Problem, wanted: Bools) -> SearchContext:
    """Return the context of a problem, without a target.

    Args:
        problem: The problem.
        wanted: Flows that are worth following, shape (E,).
    """
    stage = _stages(problem)
    both_ways = edges(problem, stage)
    lanes = np.zeros((int(stage.max(initial=0)) + 1, problem.groups))
    lanes[stage, np.arange(problem.groups)] = problem.load
    return SearchContext(
        problem=problem,
        lanes=lanes,
        weight=np.maximum(lanes.sum(axis=1) / max(float(lanes.sum()), LEAST), LEAST),
        edges=both_ways,
        heavy=np.flatnonzero(wanted[both_ways.flow]),
        prices=prices(problem),
        fixed=np.zeros(problem.groups, dtype=bool),
    )


def summed(context: SearchContext) -> SearchContext:
    """Return the context in which only the sum over all stages is balanced."""
    return replace(
        context,
        lanes=context.lanes.sum(axis=0, keepdims=True),
        weight=np.ones(1),
        edges=replace(context.edges, stage=np.zeros_like(context.edges.stage)),
    )


def _stages(problem: Problem) -> Ints:
    """Return the stage of each group, 0..S-1, shape (K,); one for all if telling them apart would take too long."""
    stage = numbered(problem.operator)
    many = not len(stage) or problem.groups * (int(stage.max()) + 1) > MOST_LANES
    return np.zeros(problem.groups, dtype=np.intp) if many else stage


def placement_state(context: SearchContext, node: Ints) -> PlacementState:
    """Return the state of a placement in which every group has a node."""
    problem, lanes = context.problem, context.lanes
    savings = Savings(context.edges, node, problem.nodes, len(lanes))
    saved = savings.at(np.arange(problem.groups), node)
    own = lanes - saved / 2  # both ends of a flow are on the node
    raw = np.array([total(node, load, problem.nodes) for load in own])
    mean = raw.sum(axis=1, keepdims=True) / problem.capacity[problem.kept].sum()
    return PlacementState(node, saved, savings, raw, mean)


def objective(context: SearchContext, node: Ints) -> float:
    """Return the objective of a placement, points, to be minimised: deviations and moves minus savings and credit."""
    problem, now = context.problem, placement_state(context, node)
    kept = problem.kept
    price = context.deviation(now.raw[:, kept] / problem.capacity[kept] - now.mean).sum()
    moves = context.prices.move[problem.moved(node)].sum()
    credit = 0.0 if context.target is None else context.target.credit[node == context.target.node].sum()
    return float(price + moves - now.worth - credit)


def contract_context(context: SearchContext, node: Ints) -> tuple[SearchContext, Ints]:
    """Return the context whose groups are units of collocated groups, and the unit of each group, shape (K,).

    It starts at the placement, with the rest of the budget.

    Args:
        context: The context of groups.
        node: Placement, within the budget, shape (K,).
    """
    problem = context.problem
    units = kept_units(problem, context.edges, node, np.inf)
    paid = (node != problem.node) | (problem.node < 0)
    cost = np.where(paid, FREE * float(problem.cost.min()), problem.cost)
    left = problem.budget - problem.spent(node)
    small = contract(replace(problem, node=node, budget=max(0.0, left)), units, cost=cost)
    every = context.edges
    within = units[every.group] == units[every.other]
    saved = [
        total(units[every.group[of]], every.half_saved[of], small.groups) for of in _by_stage(every, within, context)
    ]
    lanes = np.array([total(units, load, small.groups) for load in context.lanes]) - np.array(saved)
    apart = np.flatnonzero(~within)
    number = np.cumsum(~within) - 1
    price = total(units, np.where(paid, 0.0, context.prices.move), small.groups)
    return SearchContext(
        problem=small,
        lanes=np.maximum(lanes, 0.0),
        weight=context.weight,
        edges=Edges(
            units[every.group[apart]],
            units[every.other[apart]],
            every.saved[apart],
            every.stage[apart],
            every.flow[apart],
        ),
        heavy=number[context.heavy[~within[context.heavy]]],
        prices=Prices(context.prices.scale, price),
        fixed=total(units, context.fixed.astype(float), small.groups) > 0,
        target=None if context.target is None else _common_target(context.target, units, small.groups),
    ), units


def _by_stage(every: Edges, chosen: Bools, context: SearchContext) -> Iterator[Bools]:
    """Yield which of the chosen edges save in each stage, shape (2E,)."""
    return (chosen & (every.stage == stage) for stage in range(len(context.lanes)))


def _common_target(target: Target, units: Ints, count: int) -> Target:
    """Return a target for units: the target of the member to which it is worth most."""
    node = np.full(count, LOOSE, dtype=np.intp)
    order = np.argsort(np.where(target.node >= 0, target.credit, -1.0), kind="stable")
    node[units[order]] = target.node[order]  # the last one written is the greatest
    agrees = target.node == node[units]
    return Target(node, total(units, np.where(agrees, target.credit, 0.0), count), target.rate)
