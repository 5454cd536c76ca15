"""Collocation, balance and budget in one search: what runs unless another method is asked for.

[ALBIC] chooses one pair a period, takes loads as fixed and leaves the rest to the MILP. Here every move is judged by
the load it truly saves and the balance it leaves, and the moves of a period are chosen together:

1. What cannot wait: groups without a node, nodes marked for removal, caps (:mod:`levelling`).
2. A target for the whole cluster, where many moves pay only together (:mod:`target`).
3. Moves by worth over cost, many a pass (:mod:`climb`).
4. Ruin and recreate: part of them is taken back and chosen anew; kept if the whole is better.
5. What is left of the budget goes into balance, collocated groups moved as one (:mod:`levelling`).

Without heavy flows there is nothing to collocate, and the plan is the balancer's. If a plan is off by more than
``max_distance`` and the balancer's is closer, the balancer's is taken.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optimizers.albic.balancer import balance
from optimizers.albic.baselines import cola
from optimizers.albic.joint.bound import lower
from optimizers.albic.joint.climb import Scene, climb, energy
from optimizers.albic.joint.levelling import first, level
from optimizers.albic.joint.near import Edges, edges
from optimizers.albic.joint.options import Options
from optimizers.albic.joint.prices import prices
from optimizers.albic.joint.target import aim
from optimizers.albic.pairs import heavy
from optimizers.albic.plan import Plan
from optimizers.albic.problem import Bools, Floats, Ints, Problem

WORK = 1_500_000
"""Groups and edges times rounds that ruin and recreate may take: a large cluster gets few rounds, or none."""
RUINED = (0.2, 0.6)
"""Share of the moves that is taken back in a round."""
UNPROVEN = ("joint", "cola")
"""Stages that come without a bound of their own."""
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
        return _bounded(problem, replace(cola.place(problem, seed=seed), seed=seed))
    wanted = heavy(problem, options.factor)
    if not wanted.any() or len(problem.kept) == 1:
        return _bounded(problem, balance(problem, seed=seed))
    node = _searched(problem, _scene(problem, wanted, options), seed, options)
    distance = problem.distance(node)
    if distance > options.max_distance:
        pure = balance(problem, seed=seed)
        if problem.distance(pure.node) < distance:
            return _bounded(problem, replace(pure, stage=f"{pure.stage}, balance first"))
    return _bounded(problem, Plan(node, 0.0, "joint", seed))


def _bounded(problem: Problem, plan: Plan) -> Plan:
    """Return a plan with a bound that holds whatever is collocated: the balancer's own takes loads as fixed."""
    bound = lower(problem) if problem.flows.saved.any() or plan.stage in UNPROVEN else plan.bound
    return replace(plan, bound=min(bound, problem.distance(plan.node)))


def _scene(problem: Problem, wanted: Bools, options: Options) -> Scene:
    found = edges(problem)
    return Scene(
        problem=problem,
        edges=found,
        heavy=_heavy_edges(problem, found, wanted),
        prices=prices(problem, options),
        fixed=np.zeros(problem.groups, dtype=bool),
    )


def _heavy_edges(problem: Problem, found: Edges, wanted: Bools) -> Ints:
    """Return which edges come from heavy flows, in both directions, shape (H,)."""
    flows = problem.flows
    keys = flows.producer[wanted] * problem.groups + flows.consumer[wanted]
    forth = np.isin(found.group * problem.groups + found.other, keys)
    back = np.isin(found.other * problem.groups + found.group, keys)
    return np.flatnonzero(forth | back)


def _searched(problem: Problem, scene: Scene, seed: int, options: Options) -> Ints:
    start = first(problem, scene, options.max_distance, seed)
    scene = replace(scene, fixed=problem.removed[start])
    if options.guided:
        target = aim(problem, scene.edges, scene.heavy, scene.prices, start, seed)
        scene = replace(scene, target=target)
    node = climb(scene, start)
    node = _ruined(scene, start, node, seed, options.rounds)
    return level(scene, node, seed)


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
