"""Collocation and balance of all stages in one search: the default method for groups that feed each other.

[ALBIC] chooses one pair per period, takes loads as fixed and leaves the rest to the MILP. Here every move is judged by
the load that it really saves and the balance that it leaves, and the moves of a period are chosen together:

1. Urgent work: groups without a node, nodes marked for removal, caps (:mod:`rebalance`).
2. A target for the whole cluster, if many moves pay only together (:mod:`target`).
3. Moves by gain over cost, many per pass (:mod:`hill_climbing`).
4. Ruin and recreate: part of the moves is undone and chosen again; the result is kept if the whole is better.
5. Moves and exchanges of whole units, which are groups that share a node and bind one another (:mod:`search_context`,
   :mod:`exchanges`).
6. Balance of whole nodes, with units moved as one (:mod:`rebalance`).
7. Balance of each stage, because Spark runs stages one after another: moves and exchanges of groups and units.

Up to step 6, the sum over all stages is balanced. While groups are still apart, even stages would forbid nearly every
move: a group is a large part of what a node has to do in one stage.

If there is next to nothing to collocate, or if a placement is off by more than :data:`MAX_DISTANCE` and the balancer's
is closer, there is no result, and balance alone decides.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from millrace.optimizers.albic.balancer import balance
from millrace.optimizers.albic.exchanges import exchange
from millrace.optimizers.albic.graph import heavy
from millrace.optimizers.albic.hill_climbing import climb
from millrace.optimizers.albic.joint_prices import TOLERANCE
from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.albic.rebalance import place_urgent, rebalance, rebalance_units
from millrace.optimizers.albic.search_context import (
    SearchContext,
    contract_context,
    objective,
    placement_state,
    search_context,
    summed,
)
from millrace.optimizers.albic.target import Target, binding_edges, find_target, worthwhile_target
from millrace.optimizers.arrays import Bools, Floats, Ints

WORK = 190_000
"""Limit of groups and edges times rounds for ruin and recreate: a large cluster gets few rounds, or none."""
RUINED = (0.2, 0.6)
"""Share of the moves that is taken back in a round."""
NOISE = 0.3
"""Standard deviation of the log factor on rankings in a round."""
LEAST_SHARE = 0.05
"""Share of what all flows save, beyond chance, below which collocation is left alone."""
MAX_DISTANCE = 10.0
"""Load distance beyond which balance comes before collocation, points (the paper's maxLD)."""
ROUNDS = 24
"""How often part of the moves is undone and chosen again; fewer in large clusters."""
RELAXED = 0.1
"""Strictness of balance during a trial that the rest of the budget may restore."""
CLEARLY = 1.03
"""Follow the parts of a cut component if they are worth this many times the placement within reach."""
MOST_REFINED = 5_000
"""Groups up to which a placement without budget is computed in every period, and stages are spread."""
TURNS = 3
"""How often units and groups take turns."""


def collocate(problem: Problem, held: Bools | None = None, *, seed: int = 0) -> Ints | None:
    """Return the node of each group, collocated and balanced, within the budget, shape (K,).

    None if there is next to nothing to collocate, or if balance has to come first.

    Args:
        problem: Any valid problem.
        held: Groups that must stay where they are, shape (K,); None for none.
        seed: The same problem and seed give the same plan.
    """
    wanted = heavy(problem)
    context = search_context(problem, wanted)
    if held is not None:
        context = replace(context, fixed=held)
    if not wanted.any() or len(problem.kept) == 1 or not _pays(summed(context)):
        return None
    together = _search(summed(context), seed)
    node = rebalance(summed(context), together, seed)
    distance = problem.distance(node)
    if distance > MAX_DISTANCE and problem.distance(balance(problem, seed=seed).node) < distance:
        return None
    return _even_stages(context, (node, together))


def _pays(context: SearchContext) -> bool:
    """Return whether there is enough to collocate: flows that bind groups to one another, or many lesser ones.

    If every group sends rows to every other, they stay within a node only by chance. Among so many pairs a slightly
    better placement always turns up, at the price of endless moves.
    """
    problem, edges = context.problem, context.edges
    whole = float(edges.half_saved.sum())
    binding = binding_edges(problem, edges)
    if float(edges.half_saved[binding].sum()) >= LEAST_SHARE * whole or problem.groups > MOST_REFINED:
        return True
    if (problem.node < 0).any():  # too few facts, for one period
        return True
    best = placement_state(context, _reachable(context, problem.node)).worth
    return bool(best >= (LEAST_SHARE + 1 / len(problem.kept)) * whole)


def _reachable(context: SearchContext, start: Ints) -> Ints:
    """Return the placement that paying moves would reach without a budget, shape (K,)."""
    free = replace(context, problem=replace(context.problem, node=start, budget=math.inf))
    return _alternate(free, climb(free, start))


def _search(context: SearchContext, seed: int) -> Ints:
    start = place_urgent(context, MAX_DISTANCE, seed)
    context = replace(context, fixed=context.fixed | context.problem.removed[start])
    context = replace(context, target=_guide(context, start, seed))
    node = climb(context, start)
    node = _ruin_and_recreate(context, start, node, seed)
    return _leap(context, _alternate(context, node), seed)


def _guide(context: SearchContext, start: Ints, seed: int) -> Target | None:
    """Return where groups should be in the long run.

    Parts of a graph that had to be cut differ from period to period: following them never ends. Unless they are clearly
    better, the guide is the placement that paying moves would reach from here without a budget. It changes little from
    period to period.
    """
    problem = context.problem
    target = find_target(problem, context.edges, context.heavy, context.prices, start, seed)
    if target is None or not target.cut or problem.groups > MOST_REFINED:
        return target
    near = _reachable(context, start)
    far = np.where(target.node >= 0, target.node, start)
    if placement_state(context, far).worth > CLEARLY * placement_state(context, near).worth:
        return target
    return worthwhile_target(problem, context.edges, context.prices, start, near)


def _ruin_and_recreate(context: SearchContext, start: Ints, node: Ints, seed: int) -> Ints:
    """Return the best placement found by undoing part of the moves and climbing again, shape (K,)."""
    problem = context.problem
    rounds = min(ROUNDS, WORK // (problem.groups + len(context.edges.group) + 1))
    rng = np.random.default_rng(seed)
    best, least = node, objective(context, node)
    for _ in range(rounds):
        moved = np.flatnonzero(best != start)
        if not len(moved):
            break
        taken = moved[rng.random(len(moved)) < rng.uniform(*RUINED)]
        ruined = best.copy()
        ruined[taken] = start[taken]
        noise: Floats = np.exp(NOISE * rng.standard_normal(problem.groups))
        candidate = climb(context, ruined, noise)
        cost = objective(context, candidate)
        if cost < least:
            best, least = candidate, cost
    return best


def _alternate(context: SearchContext, node: Ints) -> Ints:
    """Return the placement after moves of whole units, then of groups again, shape (K,)."""
    for _ in range(TURNS):
        small, units = contract_context(context, node)
        unit_node = exchange(small, climb(small, small.problem.node))
        candidate = climb(context, unit_node[units])
        if (candidate == node).all():
            break
        node = candidate
    return node


def _leap(context: SearchContext, node: Ints, seed: int) -> Ints:
    """Return the placement after moves that upset the balance and others that restore it, if it is better, shape (K,).

    The last pairs of a job often get stuck without this: each group alone weighs as much as a whole pair together. The
    nodes are even only once all pairs have met.
    """
    problem = context.problem
    left = problem.budget - problem.spent(node)
    if left < problem.cost.min() or problem.groups > MOST_REFINED:
        return node
    half = problem if math.isinf(left) else replace(problem, budget=problem.budget - left / 2)
    relaxed = replace(context, problem=half, prices=replace(context.prices, strictness=RELAXED))
    candidate = climb(relaxed, node)
    if (candidate == node).all():
        return node
    candidate = rebalance_units(context, candidate, seed)
    return candidate if objective(context, candidate) < objective(context, node) else node


def _even_stages(context: SearchContext, found: tuple[Ints, Ints]) -> Ints:
    """Return the placement after moves that spread each stage, if it is better than the first one found, shape (K,).

    Nodes with equal loads over all stages may still wait for one another in every stage.

    Args:
        context: The context, with a lane per stage.
        found: Placements within the budget, shape (K,) each: with even sums over all stages, and before that.
    """
    problem, first = context.problem, found[0]
    if len(context.lanes) == 1 or problem.groups > MOST_REFINED:
        return first
    best, least = first, objective(context, first)
    most = max(TOLERANCE, problem.distance(first))
    for start in found:
        if problem.budget - problem.spent(start) < problem.cost.min():
            continue
        held = replace(context, fixed=context.fixed | problem.removed[start])
        node = _alternate(held, start)
        if objective(context, node) < least and problem.distance(node) <= most:
            best, least = node, objective(context, node)
    return best
