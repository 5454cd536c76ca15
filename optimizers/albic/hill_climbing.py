"""Hill climbing: moves of single groups within the budget, many per pass.

The gain of a move of group k from node a to node b is
    S(k, b) - S(k, a) + credit_k ([b is k's target] - [a is k's target]) - (what deviations cost more then)
points; deviations are those of each stage from its own mean. Moves are ranked by gain over cost. A pass makes the best
moves that share no node. These hardly affect one another's gain, so many can be made at once, and a thousand nodes
take a few passes.

Candidates: to the nodes of heavy partners, to the target, and from a stage's fullest nodes to its emptiest. A group
that has been moved can move again or return at no cost.
"""

from __future__ import annotations

import numpy as np

from millrace.optimizers.albic.joint_prices import TOLERANCE
from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.albic.search_context import PlacementState, SearchContext, placement_state
from millrace.optimizers.arrays import Bools, Floats, Ints

PASSES, LARGE_PASSES = 400, 40
"""Most passes, and if there are more than :data:`LARGE` groups."""
LARGE = 20_000
DETOUR_GAIN = 1.5
"""A group on its way to its target leaves for a partner that pays this many times the target's rate per unit of cost.
"""
RELIEF = 3
"""Emptiest nodes offered to a group of a full node."""
PAID_COST_SHARE = 0.25
"""Share of its cost by which a move that is already paid for is ranked: early, but not always first."""
CANDIDATES_PER_NODE = 12
"""Per pass: more would share their nodes with better ones."""
GROUPS_PER_MOVE = 20
"""Groups per node for which a node takes part in one more move per pass: among so many, two moves hardly meet."""
LEAST_GAIN = 1e-9
"""Gain below which a move is rounding, as a share of the prices' scale."""


def climb(context: SearchContext, node: Ints, noise: Floats | None = None) -> Ints:
    """Return a placement that no further move improves, within the budget, shape (K,).

    Args:
        context: The context.
        node: Start of the search, within the budget.
        noise: Factor on each group's ranking, shape (K,), > 0; None for no noise.
    """
    node = node.copy()
    for _ in range(PASSES if len(node) <= LARGE else LARGE_PASSES):
        now = placement_state(context, node)
        group, to = _candidates(context, now)
        if not _make_best(context, now, node, group, to, noise):
            break
    return node


def _make_best(
    context: SearchContext,
    now: PlacementState,
    node: Ints,
    group: Ints,
    to: Ints,
    noise: Floats | None,
) -> int:
    """Make the best moves that share no node, in place; return their number."""
    problem = context.problem
    paid = (node != problem.node) | (problem.node < 0)
    left = problem.budget - problem.spent(node)
    extra = np.where(paid, 0.0, problem.cost)
    allowed = (to != node[group]) & ~context.fixed[group] & (extra[group] <= left) & _fits(problem, node, group, to)
    group, to = group[allowed], to[allowed]
    gain = _gain(context, now, group, to)
    enough = gain > np.where(paid[group], LEAST_GAIN * context.prices.scale, context.prices.move[group])
    group, to, gain = group[enough], to[enough], gain[enough]
    rank = gain / (problem.cost[group] * np.where(paid[group], PAID_COST_SHARE, 1.0))
    if noise is not None:
        rank = rank * noise[group]
    best = np.lexsort((to, group, -rank))[: CANDIDATES_PER_NODE * problem.nodes]
    turns = max(1, problem.groups // (problem.nodes * GROUPS_PER_MOVE))
    touched = np.zeros(problem.nodes, dtype=np.intp)
    made = 0
    for k, source, goal in zip(group[best].tolist(), node[group[best]].tolist(), to[best].tolist(), strict=True):
        if max(touched[source], touched[goal]) >= turns or extra[k] > left:
            continue
        node[k] = goal
        left -= extra[k]
        touched[[source, goal]] += 1
        made += 1
    return made


def _gain(context: SearchContext, now: PlacementState, group: Ints, to: Ints) -> Floats:
    """Return the gain of each move, points."""
    problem, source = context.problem, now.node[group]
    capacity = problem.capacity
    deviation = now.raw / capacity - now.mean
    price = np.where(problem.removed, 0.0, context.deviation(deviation).sum(axis=0))
    there, here = now.savings.at(group, to), now.saved[:, group]
    leaves = (context.lanes[:, group] - here) / capacity[source]
    joins = (context.lanes[:, group] - there) / capacity[to]
    # savings lower the mean, which raises every node's deviation from it
    lift = (there - here) / capacity[problem.kept].sum()
    left = context.deviation(deviation[:, source] - leaves + lift).sum(axis=0)
    after = np.where(problem.removed[source], 0.0, left)
    after += context.deviation(deviation[:, to] + joins + lift).sum(axis=0)
    gain = (there - here).sum(axis=0) + price[source] + price[to] - after
    if context.target is not None:
        goal, credit = context.target.node[group], context.target.credit[group]
        gain = gain + credit * ((to == goal).astype(float) - (source == goal))
    return np.asarray(gain)


def _fits(problem: Problem, node: Ints, group: Ints, to: Ints) -> Bools:
    """Return which moves keep every other resource of the target node within its limit."""
    fits, caps = ~problem.removed[to], problem.caps
    if caps is None:
        return fits
    return np.asarray(fits & (caps.used(node)[:, to] + caps.load[:, group] <= caps.limit[:, to]).all(axis=0))


def _candidates(context: SearchContext, now: PlacementState) -> tuple[Ints, Ints]:
    """Return groups and the nodes they may go to, shape (C,) each."""
    moves = [_to_partners(context, now), _to_cold(context, now)]
    if context.target is not None:
        aimed = np.flatnonzero((context.target.node >= 0) & (context.target.node != now.node))
        moves.append((aimed, context.target.node[aimed]))
    return np.concatenate([g for g, _ in moves]), np.concatenate([t for _, t in moves])


def _to_partners(context: SearchContext, now: PlacementState) -> tuple[Ints, Ints]:
    edges, heavy = context.edges, context.heavy
    group, to = edges.group[heavy], now.node[edges.other[heavy]]
    apart = to != now.node[group]
    group, to = group[apart], to[apart]
    if context.target is None:
        return group, to
    saves = (now.savings.at(group, to) - now.saved[:, group]).sum(axis=0)
    pays_more = saves > DETOUR_GAIN * context.target.rate * context.problem.cost[group]
    free = (context.target.node[group] < 0) | pays_more
    return group[free], to[free]


def _to_cold(context: SearchContext, now: PlacementState) -> tuple[Ints, Ints]:
    """Return groups of nodes beyond a stage's tolerance, each with some nodes from the other end of the order."""
    found = [_from_hot(context, now, stage) for stage in range(len(context.lanes))]
    return np.concatenate([g for g, _ in found]), np.concatenate([t for _, t in found])


def _from_hot(context: SearchContext, now: PlacementState, stage: int) -> tuple[Ints, Ints]:
    problem, kept = context.problem, context.problem.kept
    deviation = (now.raw[stage, kept] / problem.capacity[kept] - now.mean[stage]) / context.weight[stage]
    order = kept[np.argsort(deviation, kind="stable")]
    low, high = int((deviation < -TOLERANCE).sum()), int((deviation > TOLERANCE).sum())
    count = min(max(low, high), len(order) // 2)
    if count == 0:
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
    rank = np.full(problem.nodes, -1)
    rank[order[::-1][:count]] = np.arange(count)
    group = np.flatnonzero((rank[now.node] >= 0) & (context.lanes[stage] > 0))
    width = min(max(count, RELIEF), len(order) - count)
    steps = np.arange(min(RELIEF, width))
    to = order[(rank[now.node[group]][:, None] + steps) % width]
    return np.repeat(group, len(steps)), to.ravel()
