"""Better and better placements by single moves within the budget, many a pass.

A move of group k from node a to node b is worth
    2 (W(k, b) - W(k, a)) + credit_k ([b is k's target] - [a is k's target]) - (what deviations cost more then)
points, W being S by worth. Moves are ranked by worth over cost. A pass makes the best moves that share no node: these
do not touch one another's worth, so that many can be made on one look, and a thousand nodes take a few passes.

Candidates: to the nodes of heavy partners, to the target, and from the fullest nodes to the emptiest. A group that has
been moved may be sent elsewhere or back for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimizers.albic.joint.near import Edges, Near
from optimizers.albic.joint.prices import Prices
from optimizers.albic.joint.target import Target
from optimizers.albic.problem import Bools, Floats, Ints, Problem
from optimizers.albic.units import total

PASSES = 400
QUICK = 1.5
"""A group leaves the way to its target for a partner that pays this many times what the target pays a unit of cost."""
RELIEF = 3
"""Emptiest nodes that a group of a full node is offered."""
PAID = 0.25
"""Share of its cost by which a move that is paid already is ranked: first, but not blindly first."""
LIST = 12
"""Candidates a node that are looked at in a pass: more would share their nodes with better ones."""
LEAST = 1e-9
"""Worth below which a move is rounding."""


@dataclass(frozen=True)
class Scene:
    """What stays the same while a plan is sought.

    Attributes:
        problem: The problem.
        edges: Its flows.
        heavy: Indices of those edges that are worth following, shape (H,).
        prices: Its prices.
        fixed: Groups that keep the place they have at the start, shape (K,).
        target: Where groups shall be some day; None without.
    """

    problem: Problem
    edges: Edges
    heavy: Ints
    prices: Prices
    fixed: Bools
    target: Target | None = None


@dataclass(frozen=True)
class View:
    """A placement and what follows from it.

    Attributes:
        node: Node of each group, shape (K,).
        saved: S at everyone's own node, shape (K,).
        worth: The same by worth, shape (K,).
        near: S.
        near_worth: S by worth.
        raw: Load of each node, not divided by capacity, shape (N,).
        mean: Mean of the kept nodes, points.
    """

    node: Ints
    saved: Floats
    worth: Floats
    near: Near
    near_worth: Near
    raw: Floats
    mean: float


def view(scene: Scene, node: Ints) -> View:
    """Return what follows from a placement in which every group has a node."""
    problem, edges = scene.problem, scene.edges
    everyone = np.arange(problem.groups)
    near = Near(edges.group, edges.other, edges.saved, node, problem.nodes)
    same = edges.worth is edges.saved
    near_worth = near if same else Near(edges.group, edges.other, edges.worth, node, problem.nodes)
    saved = near.at(everyone, node)
    raw = total(node, problem.load - saved, problem.nodes)
    mean = float(raw.sum() / problem.capacity[problem.kept].sum())
    return View(node, saved, saved if same else near_worth.at(everyone, node), near, near_worth, raw, mean)


def energy(scene: Scene, node: Ints) -> float:
    """Return what a placement costs, points: the less the better."""
    problem, now = scene.problem, view(scene, node)
    kept = problem.kept
    price = scene.prices.deviation(now.raw[kept] / problem.capacity[kept] - now.mean).sum()
    moves = scene.prices.move[problem.moved(node)].sum()
    credit = 0.0 if scene.target is None else scene.target.credit[node == scene.target.node].sum()
    return float(price + moves - now.worth.sum() - credit)


def climb(scene: Scene, node: Ints, noise: Floats | None = None) -> Ints:
    """Return the placement that no further move improves, within the budget, shape (K,).

    Args:
        scene: The scene.
        node: Where to begin, within the budget.
        noise: Factor on each group's ranking, shape (K,), > 0; none without.
    """
    node = node.copy()
    for _ in range(PASSES):
        now = view(scene, node)
        group, to = _candidates(scene, now)
        if not _make(scene, now, node, group, to, noise):
            break
    return node


def _make(scene: Scene, now: View, node: Ints, group: Ints, to: Ints, noise: Floats | None) -> int:
    """Make the best moves that share no node, in place; return how many."""
    problem = scene.problem
    paid = (node != problem.node) | (problem.node < 0)
    left = problem.budget - problem.spent(node)
    extra = np.where(paid, 0.0, problem.cost)
    allowed = (to != node[group]) & ~scene.fixed[group] & (extra[group] <= left) & _fits(problem, node, group, to)
    group, to = group[allowed], to[allowed]
    gain = _gain(scene, now, group, to)
    enough = gain > np.where(paid[group], LEAST * scene.prices.scale, scene.prices.move[group])
    group, to, gain = group[enough], to[enough], gain[enough]
    rank = gain / (problem.cost[group] * np.where(paid[group], PAID, 1.0))
    if noise is not None:
        rank = rank * noise[group]
    best = np.lexsort((to, group, -rank))[: LIST * problem.nodes]
    touched = np.zeros(problem.nodes, dtype=bool)
    made = 0
    for k, source, goal in zip(group[best].tolist(), node[group[best]].tolist(), to[best].tolist(), strict=True):
        if touched[source] or touched[goal] or extra[k] > left:
            continue
        node[k] = goal
        left -= extra[k]
        touched[source] = touched[goal] = True
        made += 1
    return made


def _gain(scene: Scene, now: View, group: Ints, to: Ints) -> Floats:
    """Return what each move is worth, points."""
    problem, source = scene.problem, now.node[group]
    capacity = problem.capacity
    deviation = now.raw / capacity - now.mean
    price = np.where(problem.removed, 0.0, scene.prices.deviation(deviation))
    there = now.near.at(group, to)
    leaves = (problem.load[group] - 2 * now.saved[group]) / capacity[source]
    joins = (problem.load[group] - 2 * there) / capacity[to]
    # what is saved lowers the mean, which lifts everyone over it
    lift = 2 * (there - now.saved[group]) / capacity[problem.kept].sum()
    after = np.where(problem.removed[source], 0.0, scene.prices.deviation(deviation[source] - leaves + lift))
    after += scene.prices.deviation(deviation[to] + joins + lift)
    gain = 2 * (now.near_worth.at(group, to) - now.worth[group]) + price[source] + price[to] - after
    if scene.target is not None:
        goal, credit = scene.target.node[group], scene.target.credit[group]
        gain = gain + credit * ((to == goal).astype(float) - (source == goal))
    return np.asarray(gain)


def _fits(problem: Problem, node: Ints, group: Ints, to: Ints) -> Bools:
    """Say which moves leave every other resource of the node they go to within its limit."""
    fits = ~problem.removed[to]
    if problem.caps is not None:
        for used, limit in zip(problem.caps.load, problem.caps.limit, strict=True):
            filled = total(node, used, problem.nodes)
            fits = fits & (filled[to] + used[group] <= limit[to])
    return fits


def _candidates(scene: Scene, now: View) -> tuple[Ints, Ints]:
    """Return groups and the nodes they may go to, shape (C,) each."""
    found = [_to_partners(scene, now), _to_cold(scene, now)]
    if scene.target is not None:
        aimed = np.flatnonzero((scene.target.node >= 0) & (scene.target.node != now.node))
        found.append((aimed, scene.target.node[aimed]))
    return np.concatenate([g for g, _ in found]), np.concatenate([t for _, t in found])


def _to_partners(scene: Scene, now: View) -> tuple[Ints, Ints]:
    edges, heavy = scene.edges, scene.heavy
    group, to = edges.group[heavy], now.node[edges.other[heavy]]
    apart = to != now.node[group]
    group, to = group[apart], to[apart]
    if scene.target is None:
        return group, to
    saves = 2 * (now.near_worth.at(group, to) - now.worth[group])
    quick = saves > QUICK * scene.target.rate * scene.problem.cost[group]
    free = (scene.target.node[group] < 0) | quick
    return group[free], to[free]


def _to_cold(scene: Scene, now: View) -> tuple[Ints, Ints]:
    """Return the groups of nodes beyond the tolerance, each with some nodes from the other end of the order."""
    problem, kept = scene.problem, scene.problem.kept
    deviation = now.raw[kept] / problem.capacity[kept] - now.mean
    order = kept[np.argsort(deviation, kind="stable")]
    low, high = (int((deviation < -scene.prices.tolerance).sum()), int((deviation > scene.prices.tolerance).sum()))
    count = min(max(low, high), len(order) // 2)
    if count == 0:
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
    rank = np.full(problem.nodes, -1)
    rank[order[::-1][:count]] = np.arange(count)
    group = np.flatnonzero(rank[now.node] >= 0)
    width = min(max(count, RELIEF), len(order) - count)
    steps = np.arange(min(RELIEF, width))
    to = order[(rank[now.node[group]][:, None] + steps) % width]
    return np.repeat(group, len(steps)), to.ravel()
