"""Exchange two groups between their nodes if neither could move alone without upsetting the balance.

The gain of an exchange of k on node a and l on node b is
    S(k, b) - S(k, a) + S(l, a) - S(l, b) - 2 s_kl + credits - (what the deviations of a and b cost more)
points. s_kl, what the two save together, is counted in S(k, b) and in S(l, a), but they do not meet.

A table of all pairs shows which could gain at best; only those are judged. So contexts must be as small as contracted
ones.
"""

from __future__ import annotations

import numpy as np

from millrace.optimizers.albic.hill_climbing import LEAST_GAIN
from millrace.optimizers.albic.savings import Savings
from millrace.optimizers.albic.search_context import PlacementState, SearchContext, placement_state
from millrace.optimizers.arrays import Floats, Ints

MOST_GROUPS = 1_200
"""Groups up to which exchanges are considered: the table of pairs is as large as their square."""
PASSES = 60


def pair_savings(context: SearchContext) -> Savings:
    """Return the savings of each pair of groups of a context, as if each group were on a node of its own."""
    alone = np.arange(context.problem.groups)
    return Savings(context.edges, alone, len(alone), len(context.lanes))


def exchange(context: SearchContext, node: Ints) -> Ints:
    """Return a placement that no exchange improves, within the budget, shape (K,)."""
    problem = context.problem
    if problem.groups > MOST_GROUPS or problem.caps is not None:
        return node
    node, pairs = node.copy(), pair_savings(context)
    for _ in range(PASSES):
        if not _make_best(context, placement_state(context, node), pairs, node):
            break
    return node


def _make_best(context: SearchContext, now: PlacementState, pairs: Savings, node: Ints) -> int:
    """Make the best exchanges that share no node, in place; return their number."""
    problem = context.problem
    extra = np.where((node != problem.node) | (problem.node < 0), 0.0, problem.cost)
    left = problem.budget - problem.spent(node)
    able = np.flatnonzero(~context.fixed & ~problem.removed[node] & (extra <= left))
    if len(able) < 2:
        return 0
    first, second = _candidates(context, now, able, extra)
    price = extra[first] + extra[second]
    affordable = price <= left
    first, second, price = first[affordable], second[affordable], price[affordable]
    gain = gains(context, now, pairs, first, second, extra)
    paying = gain > LEAST_GAIN * context.prices.scale
    first, second, price, gain = first[paying], second[paying], price[paying], gain[paying]
    rank = gain / np.maximum(price, problem.cost.min())
    touched = np.zeros(problem.nodes, dtype=bool)
    made = 0
    for at in np.argsort(-rank, kind="stable")[: 20 * problem.nodes].tolist():
        k, m = int(first[at]), int(second[at])
        a, b = int(node[k]), int(node[m])
        if touched[a] or touched[b] or price[at] > left:
            continue
        node[k], node[m] = b, a
        left -= price[at]
        touched[a] = touched[b] = True
        made += 1
    return made


def _candidates(context: SearchContext, now: PlacementState, able: Ints, extra: Floats) -> tuple[Ints, Ints]:
    """Return the pairs whose exchange would gain if deviations no longer cost anything, shape (X,) each."""
    problem, at = context.problem, now.node[able]
    nodes = np.arange(problem.nodes)
    there = now.savings.at(np.repeat(able, len(nodes)), np.tile(nodes, len(able))).sum(axis=0).reshape(len(able), -1)
    own = there - now.saved[:, able].sum(axis=0)[:, None]
    if context.target is not None:
        goal, credit = context.target.node[able], context.target.credit[able]
        own += credit[:, None] * ((goal[:, None] == nodes) - (goal == at)[:, None].astype(float))
    relief = context.deviation(now.raw / problem.capacity - now.mean).sum(axis=0)[at]
    own += (relief - _price(context, extra, able))[:, None]
    best = own[:, at]
    best += best.T.copy()
    first, second = np.nonzero(best > LEAST_GAIN * context.prices.scale)
    real = (first < second) & (at[first] != at[second])
    return able[first[real]], able[second[real]]


def gains(
    context: SearchContext, now: PlacementState, pairs: Savings, first: Ints, second: Ints, extra: Floats
) -> Floats:
    """Return the gain of exchanges minus the cost of their moves, points, shape (X,).

    Args:
        context: The context.
        now: Its placement.
        pairs: Savings of each pair of its groups.
        first: Groups that change places, shape (X,).
        second: Their partners, on another node, shape (X,).
        extra: Added cost of moving each group, shape (K,).
    """
    problem = context.problem
    saved = pairs.at(first, second)
    less, gain = -2 * saved, np.zeros(len(first))
    for k, m in ((first, second), (second, first)):
        to = now.node[m]
        gain -= _price(context, extra, k)
        less += now.savings.at(k, to) - now.saved[:, k]
        if context.target is not None:
            goal = context.target.node[k]
            gain += context.target.credit[k] * ((goal == to).astype(float) - (goal == now.node[k]))
    # savings lower the mean, which raises every node's deviation from it
    lift = less / problem.capacity[problem.kept].sum()
    for k, m in ((first, second), (second, first)):
        at = now.node[k]
        leaves = context.lanes[:, k] - now.saved[:, k]
        joins = context.lanes[:, m] - now.savings.at(m, at) + saved
        before = now.raw[:, at] / problem.capacity[at] - now.mean
        after = before + (joins - leaves) / problem.capacity[at] + lift
        gain += (context.deviation(before) - context.deviation(after)).sum(axis=0)
    return np.asarray(gain + less.sum(axis=0))


def _price(context: SearchContext, extra: Floats, groups: Ints) -> Floats:
    return np.where(extra[groups] > 0, context.prices.move[groups], 0.0)
