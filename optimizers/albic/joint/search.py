"""Collocation, balance and budget in one search: what runs unless another method is asked for.

[ALBIC] chooses one pair a period, takes loads as fixed and leaves the rest to the MILP. Here every move is judged by
the load it truly saves and the balance it leaves, and the moves of a period are chosen together:

1. What cannot wait: groups without a node, nodes marked for removal, caps (:mod:`levelling`).
2. A target for the whole cluster, where many moves pay only together (:mod:`target`).
3. Moves by worth over cost, many a pass (:mod:`climb`).
4. Ruin and recreate: part of them is taken back and chosen anew; kept if the whole is better.
5. Moves and exchanges of whole units, groups that have found together (:mod:`coarse`, :mod:`swap`).
6. What is left of the budget goes into balance, units moved as one (:mod:`levelling`).

Where there is next to nothing to collocate, the plan is the balancer's: nothing is traded away for nothing. If a plan
is off by more than ``max_distance`` and the balancer's is closer, the balancer's is taken. Where nothing has a place
yet, COLA's placement is the beginning, and no budget limits what is made of it ([ALBIC], Section 5.4).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from optimizers.albic.balance.balancer import balance
from optimizers.albic.joint.bound import lower
from optimizers.albic.joint.climb import Scene, climb, energy, view
from optimizers.albic.joint.coarse import coarse
from optimizers.albic.joint.levelling import first, level, rebalanced
from optimizers.albic.joint.near import edges
from optimizers.albic.joint.options import Options
from optimizers.albic.joint.prices import prices
from optimizers.albic.joint.swap import swap
from optimizers.albic.joint.target import Target, aim, binding, weighed
from optimizers.albic.pairs import heavy
from optimizers.albic.plan import Plan
from optimizers.albic.problem import Bools, Floats, Ints, Problem
from optimizers.albic.rivals import cola
from optimizers.albic.units import expand

WORK = 190_000
"""Groups and edges times rounds that ruin and recreate may take: a large cluster gets few rounds, or none."""
RUINED = (0.2, 0.6)
"""Share of the moves that is taken back in a round."""
JOINT = "joint"
NOISE = 0.3
"""Standard deviation of the log factor on rankings in a round."""


def place(problem: Problem, *, seed: int = 0, options: Options | None = None) -> Plan:
    """Return a plan that collocates and balances within the budget.

    Args:
        problem: Any valid problem.
        seed: The same problem and seed give the same plan.
        options: The knobs; their defaults without.
    """
    options = options or Options()
    if problem.groups and (problem.node < 0).all():
        begun = replace(problem, node=cola.place(problem, seed=seed).node, budget=math.inf)
        return replace(place(begun, seed=seed, options=options), stage="first placement")
    wanted = heavy(problem, options.factor)
    scene = scene_of(problem, wanted, options)
    if not wanted.any() or len(problem.kept) == 1 or not _pays(scene):
        return _bounded(problem, balance(problem, seed=seed))
    node = _searched(problem, scene, seed, options)
    distance = problem.distance(node)
    if distance > options.max_distance:
        pure = balance(problem, seed=seed)
        if problem.distance(pure.node) < distance:
            return _bounded(problem, replace(pure, stage=f"{pure.stage}, balance first"))
    return _bounded(problem, Plan(node, 0.0, JOINT, seed))


def _bounded(problem: Problem, plan: Plan) -> Plan:
    """Return a plan with a bound that holds whatever is collocated: the balancer's own takes loads as fixed."""
    bound = lower(problem) if problem.flows.saved.any() or plan.stage == JOINT else plan.bound
    return replace(plan, bound=min(bound, problem.distance(plan.node)))


def scene_of(problem: Problem, wanted: Bools, options: Options) -> Scene:
    """Return the scene of a problem.

    Args:
        problem: The problem.
        wanted: Flows that are worth following, shape (E,).
        options: The knobs.
    """
    found = edges(problem)
    return Scene(
        problem=problem,
        edges=found,
        heavy=np.flatnonzero(wanted[found.flow]),
        prices=prices(problem, options),
        fixed=np.zeros(problem.groups, dtype=bool),
    )


def _pays(scene: Scene) -> bool:
    """Say whether there is enough to collocate: flows that bind groups to one another, or many lesser ones.

    Rows that everyone passes to everyone can stay within a node by chance only. A little more than that is always found
    among so many pairs, at the price of moves without end.
    """
    problem, edges = scene.problem, scene.edges
    whole = float(edges.worth.sum())
    bound = binding(problem, edges)
    if float(edges.worth[bound].sum()) >= LEAST_SHARE * whole or problem.groups > MOST_REFINED:
        return True
    if (problem.node < 0).any():  # too few facts, for one period
        return True
    best = view(scene, _reachable(scene, problem.node)).worth.sum()
    return bool(best >= (LEAST_SHARE + 1 / len(problem.kept)) * whole)


LEAST_SHARE = 0.05
"""Share of all that flows are worth, beyond chance, below which collocation is left alone."""


def _reachable(scene: Scene, start: Ints) -> Ints:
    """Return what moves that pay would make of a placement, were there no budget, shape (K,)."""
    free = replace(scene, problem=replace(scene.problem, node=start, budget=math.inf))
    return _together(free, climb(free, start))


def _searched(problem: Problem, scene: Scene, seed: int, options: Options) -> Ints:
    start = first(problem, scene, options.max_distance, seed)
    scene = replace(scene, fixed=problem.removed[start])
    if options.guided:
        scene = replace(scene, target=_guide(scene, start, seed))
    node = climb(scene, start)
    node = _ruined(scene, start, node, seed, options.rounds)
    node = _leapt(scene, _together(scene, node), seed)
    return level(scene, node, seed)


def _leapt(scene: Scene, node: Ints, seed: int) -> Ints:
    """Return the placement after moves that upset the balance and others that restore it, if both are better, (K,).

    The last pairs of a job are often stuck like that: each of them weighs as much apart as a whole pair does together,
    so that the nodes are even only once all have met.
    """
    problem = scene.problem
    left = problem.budget - problem.spent(node)
    if left < problem.cost.min() or problem.groups > MOST_REFINED:
        return node
    some = problem if math.isinf(left) else replace(problem, budget=problem.budget - left / 2)
    relaxed = replace(scene, problem=some, prices=replace(scene.prices, strictness=RELAXED))
    found = climb(relaxed, node)
    if (found == node).all():
        return node
    found = rebalanced(scene, found, seed)
    return found if energy(scene, found) < energy(scene, node) else node


RELAXED = 0.1
"""Strictness of balance while something is tried that the rest of the budget may restore."""


def _guide(scene: Scene, start: Ints, seed: int) -> Target | None:
    """Return where groups shall be some day.

    Parts of a graph that had to be cut differ from period to period, and whoever follows them never arrives. Unless
    they are clearly better, the guide is what can be reached from here by moves that pay, were there no budget: that
    is much the same next time.
    """
    problem = scene.problem
    found = aim(problem, scene.edges, scene.heavy, scene.prices, start, seed)
    if found is None or not found.cut or problem.groups > MOST_REFINED:
        return found
    near = _reachable(scene, start)
    far = np.where(found.node >= 0, found.node, start)
    if view(scene, far).worth.sum() > CLEARLY * view(scene, near).worth.sum():
        return found
    return weighed(problem, scene.edges, scene.prices, start, near)


CLEARLY = 1.03
MOST_REFINED = 5_000
"""Groups up to which a placement without budget is worked out in every period."""


def _together(scene: Scene, node: Ints) -> Ints:
    """Return the placement after moves of whole units, and of groups again, shape (K,)."""
    for _ in range(TURNS):
        small, units = coarse(scene, node)
        found = expand(units, swap(small, climb(small, small.problem.node)))
        found = climb(scene, found)
        if (found == node).all():
            break
        node = found
    return node


TURNS = 3
"""How often units and groups take turns."""


def _ruined(scene: Scene, start: Ints, node: Ints, seed: int, rounds: int) -> Ints:
    """Return the best placement that taking moves back and choosing anew finds, shape (K,)."""
    problem = scene.problem
    rounds = min(rounds, WORK // (problem.groups + len(scene.edges.group) + 1))
    rng = np.random.default_rng(seed)
    best, least = node, energy(scene, node)
    for _ in range(rounds):
        moved = np.flatnonzero(best != start)
        if not len(moved):
            break
        taken = moved[rng.random(len(moved)) < rng.uniform(*RUINED)]
        ruined = best.copy()
        ruined[taken] = start[taken]
        noise: Floats = np.exp(NOISE * rng.standard_normal(problem.groups))
        found = climb(scene, ruined, noise)
        cost = energy(scene, found)
        if cost < least:
            best, least = found, cost
    return best
