"""Input of a joint search: the problem with its flows, prices and target, and the worth of a placement.

Collocated groups that bind one another can be contracted to one group. Once a group has found its partner, neither can
move alone without losing more than it gains; together they can.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from millrace.optimizers.albic.contraction import contract, total
from millrace.optimizers.albic.joint_prices import JointOptions, Prices, prices
from millrace.optimizers.albic.problem import Bools, Floats, Ints, Problem
from millrace.optimizers.albic.savings import Edges, Savings, edges
from millrace.optimizers.albic.target import LOOSE, Target, kept_units

FREE = 1e-6
"""Price of a unit whose groups all move anyway, as a share of the cheapest group's: prices must be above 0."""


@dataclass(frozen=True)
class SearchContext:
    """Everything that stays the same during a search.

    Attributes:
        problem: The problem.
        edges: Its flows.
        heavy: Indices of the edges that are worth following, shape (H,).
        prices: Its prices.
        fixed: Groups that must not leave their first node, shape (K,).
        target: Long-term placement of the groups; None without.
    """

    problem: Problem
    edges: Edges
    heavy: Ints
    prices: Prices
    fixed: Bools
    target: Target | None = None


@dataclass(frozen=True)
class PlacementState:
    """A placement with its savings and loads.

    Attributes:
        node: Node of each group, shape (K,).
        saved: S of each group at its own node, shape (K,).
        worth: The same by worth, shape (K,).
        savings: S.
        savings_by_worth: S by worth.
        raw: Load of each node, not divided by capacity, shape (N,).
        mean: Mean of the kept nodes, points.
    """

    node: Ints
    saved: Floats
    worth: Floats
    savings: Savings
    savings_by_worth: Savings
    raw: Floats
    mean: float


def search_context(problem: Problem, wanted: Bools, options: JointOptions) -> SearchContext:
    """Return the context of a problem, without a target.

    Args:
        problem: The problem.
        wanted: Flows that are worth following, shape (E,).
        options: The options.
    """
    both_ways = edges(problem)
    return SearchContext(
        problem=problem,
        edges=both_ways,
        heavy=np.flatnonzero(wanted[both_ways.flow]),
        prices=prices(problem, options),
        fixed=np.zeros(problem.groups, dtype=bool),
    )


def placement_state(context: SearchContext, node: Ints) -> PlacementState:
    """Return the state of a placement in which every group has a node."""
    problem, edges = context.problem, context.edges
    everyone = np.arange(problem.groups)
    savings = Savings(edges.group, edges.other, edges.saved, node, problem.nodes)
    by_worth = savings
    if edges.worth is not edges.saved:
        by_worth = Savings(edges.group, edges.other, edges.worth, node, problem.nodes)
    saved = savings.at(everyone, node)
    worth = saved if by_worth is savings else by_worth.at(everyone, node)
    raw = total(node, problem.load - saved, problem.nodes)
    mean = float(raw.sum() / problem.capacity[problem.kept].sum())
    return PlacementState(node, saved, worth, savings, by_worth, raw, mean)


def objective(context: SearchContext, node: Ints) -> float:
    """Return the objective of a placement, points, to be minimised: deviations and moves minus savings and credit."""
    problem, now = context.problem, placement_state(context, node)
    kept = problem.kept
    price = context.prices.deviation(now.raw[kept] / problem.capacity[kept] - now.mean).sum()
    moves = context.prices.move[problem.moved(node)].sum()
    credit = 0.0 if context.target is None else context.target.credit[node == context.target.node].sum()
    return float(price + moves - now.worth.sum() - credit)


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
    unit_edges = edges(small)
    keys = unit_edges.group * small.groups + unit_edges.other
    heavy = units[context.edges.group[context.heavy]] * small.groups + units[context.edges.other[context.heavy]]
    price = total(units, np.where(paid, 0.0, context.prices.move), small.groups)
    return SearchContext(
        problem=small,
        edges=unit_edges,
        heavy=np.flatnonzero(np.isin(keys, heavy)),
        prices=Prices(context.prices.scale, context.prices.tolerance, price),
        fixed=total(units, context.fixed.astype(float), small.groups) > 0,
        target=None if context.target is None else _common_target(context.target, units, small.groups),
    ), units


def _common_target(target: Target, units: Ints, count: int) -> Target:
    """Return a target for units: the target of the member to which it is worth most."""
    node = np.full(count, LOOSE, dtype=np.intp)
    order = np.argsort(np.where(target.node >= 0, target.credit, -1.0), kind="stable")
    node[units[order]] = target.node[order]  # the last one written is the greatest
    agrees = target.node == node[units]
    return Target(node, total(units, np.where(agrees, target.credit, 0.0), count), target.rate)
