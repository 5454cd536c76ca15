"""Exchanges of two groups between their nodes, where neither could move alone without upsetting the balance.

An exchange of k on node a and l on node b is worth
    2 (W(k, b) - W(k, a) + W(l, a) - W(l, b)) - 4 w_kl + credits - (what the deviations of a and b cost more)
points: w_kl, what the two save together, is counted by W(k, b) and by W(l, a), but they do not meet.

All exchanges are judged at once, hence only in scenes of so many groups as units leave over.
"""

from __future__ import annotations

import numpy as np

from optimizers.albic.joint.climb import LEAST, Scene, View, view
from optimizers.albic.problem import Floats, Ints
from optimizers.albic.units import total

MOST_GROUPS = 1_200
"""Groups beyond which exchanges are not looked at: the table of all is as large as their square."""
PASSES = 60


def swap(scene: Scene, node: Ints) -> Ints:
    """Return the placement that no exchange improves, within the budget, shape (K,)."""
    problem = scene.problem
    if problem.groups > MOST_GROUPS or problem.caps is not None:
        return node
    node = node.copy()
    for _ in range(PASSES):
        if not _exchange(scene, view(scene, node), node):
            break
    return node


def _exchange(scene: Scene, now: View, node: Ints) -> int:
    """Make the best exchanges that share no node, in place; return how many."""
    problem = scene.problem
    extra = np.where((node != problem.node) | (problem.node < 0), 0.0, problem.cost)
    left = problem.budget - problem.spent(node)
    able = np.flatnonzero(~scene.fixed & ~problem.removed[node] & (extra <= left))
    if len(able) < 2:
        return 0
    gain = gains(scene, now, able, extra)
    first, second = np.nonzero(np.triu(gain > LEAST * scene.prices.scale, 1))
    price = extra[able[first]] + extra[able[second]]
    affordable = price <= left
    first, second, price = first[affordable], second[affordable], price[affordable]
    worth = gain[first, second] / np.maximum(price, problem.cost.min())
    touched = np.zeros(problem.nodes, dtype=bool)
    made = 0
    for at in np.argsort(-worth, kind="stable")[: 20 * problem.nodes].tolist():
        k, m = int(able[first[at]]), int(able[second[at]])
        a, b = int(node[k]), int(node[m])
        if touched[a] or touched[b] or price[at] > left:
            continue
        node[k], node[m] = b, a
        left -= price[at]
        touched[a] = touched[b] = True
        made += 1
    return made


def gains(scene: Scene, now: View, able: Ints, extra: Floats) -> Floats:
    """Return what each exchange is worth, points, what its moves cost taken off, shape (A, A); -inf within a node.

    Args:
        scene: The scene.
        now: Its placement.
        able: Groups that may move, shape (A,).
        extra: What moving each group adds to what is spent, shape (K,).
    """
    problem, at = scene.problem, now.node[able]
    nodes = np.arange(problem.nodes)
    near = now.near.at(np.repeat(able, len(nodes)), np.tile(nodes, len(able))).reshape(len(able), -1)
    worth = near
    if now.near_worth is not now.near:
        worth = now.near_worth.at(np.repeat(able, len(nodes)), np.tile(nodes, len(able))).reshape(len(able), -1)
    gain = 2 * (worth[:, at] - now.worth[able][:, None])
    if scene.target is not None:
        goal, credit = scene.target.node[able], scene.target.credit[able]
        gain += credit[:, None] * ((goal[:, None] == at[None, :]).astype(float) - (goal == at)[:, None])
    saved, value = _between(scene, able)
    gain = gain + gain.T - 4 * value
    # load of k's node after it: k goes, l comes
    leaves = problem.load[able] - 2 * now.saved[able]
    joins = problem.load[able][None, :] - 2 * near[:, at].T + 2 * saved
    capacity = problem.capacity[at]
    deviation = now.raw[at] / capacity - now.mean
    # what is saved lowers the mean, which lifts everyone over it
    less = near[:, at] - now.saved[able][:, None]
    lift = (2 * (less + less.T) - 4 * saved) / problem.capacity[problem.kept].sum()
    after = deviation[:, None] + (joins - leaves[:, None]) / capacity[:, None] + lift
    price = scene.prices.deviation(after) - scene.prices.deviation(deviation)[:, None]
    moves = np.where(extra[able] > 0, scene.prices.move[able], 0.0)
    gain = gain - price - price.T - moves[:, None] - moves[None, :]
    return np.asarray(np.where(at[:, None] == at[None, :], -np.inf, gain))


def _between(scene: Scene, able: Ints) -> tuple[Floats, Floats]:
    """Return what each two groups save together, and its worth, shape (A, A)."""
    index = np.full(scene.problem.groups, -1)
    index[able] = np.arange(len(able))
    first, second = index[scene.edges.group], index[scene.edges.other]
    both = (first >= 0) & (second >= 0)
    keys = first[both] * len(able) + second[both]
    tables = [
        total(keys, values[both], len(able) ** 2).reshape(len(able), -1)
        for values in (scene.edges.saved, scene.edges.worth)
    ]
    return tables[0], tables[1]
