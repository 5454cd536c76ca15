"""The certified balancer: a plan within the budget, and a load distance that no plan can undercut.

First, every group gets a node, exceeded caps are eased and removed nodes are drained (in the order of
:mod:`constraints`). Then the load distance is reduced. Finally, moves that do not help it are taken back. No move is
made for a gain that could be rounding.

To reduce the load distance, the search aims at one distance after another: first the proven bound, then halfway between
the last missed and the best reached one. It starts from the result of the earlier stages and from the best plan so far
(:mod:`band_search`).

Loads of groups are those under the present placement, whichever groups are together afterwards. Flows are otherwise
ignored; the joint search uses them.

Reference: own; the aim is that of the MILP in [ALBIC] Section 4.3.1. Deviations: d is minimised first, then the cost of
the moves; the paper's d_u and d_l are left to :mod:`paper.milp`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from millrace.optimizers.albic.assignment import Assignment
from millrace.optimizers.albic.balance_bound import bound_of
from millrace.optimizers.albic.balance_problem import balance_problem
from millrace.optimizers.albic.band_search import bring_into_band
from millrace.optimizers.albic.constraints import drain, ease_caps, load_ceiling, place_unplaced
from millrace.optimizers.albic.problem import Plan, Problem
from millrace.optimizers.arrays import Ints

AIMS = 7
"""Number of load distances to aim at."""
NEAR = 0.001
"""Points above the bound that are as good as the bound."""
SMALL = 100_000
"""Nodes times groups up to which the full search runs."""
LARGE_AIMS = 2
"""Number of load distances to aim at on larger problems, each from the result of the one before."""
LARGE_OFFSET = 0.1
"""First aim on larger problems, points above the bound: all nodes come this near before any comes nearer."""
RETRIES = 5
"""Retries per aim after a dead end."""
ROUNDS = 3
"""How often nodes that fix the load distance are set aside to balance the others."""
EVEN_ENOUGH = 1.0
"""The other nodes are left alone up to this many points from their own mean."""


def balance(
    problem: Problem, *, pinned: Ints | None = None, seed: int = 0, rest: bool = True, proven: bool = True
) -> Plan:
    """Return a plan within the budget, and a bound on its quality.

    Args:
        problem: The problem. Loads are those under the present placement.
        pinned: Node that each group must be on afterwards, shape (K,), -1 for any. Pins cost as much as their moves. If
            they exceed the budget or a cap, or lead onto a removed node, all pinned groups stay where they are, and the
            stage says so.
        seed: Seed of the search; the same problem and seed give the same plan.
        rest: Balance the other nodes, too, if a few of them fix the load distance.
        proven: Prove a bound, which takes long if moves have many different costs; otherwise it is 0.
    """
    fixed = balance_problem(problem, pinned)
    assignment = Assignment(fixed)
    place_unplaced(assignment)
    ease_caps(assignment)
    drained = drain(assignment)
    assignment.load_limit = load_ceiling(assignment)
    bound = bound_of(fixed) if proven else 0.0
    assignment = _descend(assignment, bound, np.random.default_rng(seed))
    _give_back(assignment)
    if rest:
        assignment = _balance_others(assignment, np.random.default_rng(seed))
    stages = ["pins dropped"] * fixed.dropped + [drained or ""] + ["balanced"]
    return Plan(
        node=assignment.node,
        bound=min(bound, fixed.distance(assignment.node)),
        stage=", ".join(filter(None, stages)),
    )


def _descend(start: Assignment, bound: float, rng: np.random.Generator) -> Assignment:
    """Reduce the load distance by aiming nearer and nearer."""
    problem = start.problem
    small = len(problem.capacity) * len(problem.load) <= SMALL
    aims, offset, retries = (AIMS, NEAR / 2, RETRIES) if small else (LARGE_AIMS, LARGE_OFFSET, 0)
    best, reached = start, start.distance()
    missed, aim = bound, bound + offset
    for _ in range(aims):
        if reached <= bound + NEAR:
            break
        for node in (start.node, best.node) if small else (best.node,):
            assignment = start.copy_with(node)
            bring_into_band(assignment, aim, problem.affordable, rng, retries)
            distance = assignment.distance()
            if distance < reached and not assignment.overfull():
                best, reached = assignment, distance
        if reached > aim:
            missed = aim
        aim = (missed + reached) / 2
    return best


def _balance_others(assignment: Assignment, rng: np.random.Generator) -> Assignment:
    """Balance the other nodes if a few nodes fix the load distance: one heavy group must not excuse the rest."""
    whole = assignment.problem
    for _ in range(ROUNDS):
        problem = assignment.problem
        deviation = np.abs(assignment.deviation())
        done = problem.kept & (deviation >= deviation.max() - NEAR)
        kept = problem.kept & ~done
        if not kept.any() or assignment.left() < problem.price.min(initial=np.inf):
            break
        fixed = problem.fixed | done[assignment.node]
        mean = float(assignment.raw[kept].sum() / problem.capacity[kept].sum())
        rest = assignment.copy_with(assignment.node, replace(problem, kept=kept, fixed=fixed, mean=mean))
        if rest.distance() <= EVEN_ENOUGH:
            break
        assignment = _descend(rest, 0.0, rng)
        _give_back(assignment)
    return assignment.copy_with(assignment.node, whole)


def _give_back(assignment: Assignment) -> None:
    """Take back moves that the load distance does not need, the most expensive first."""
    problem = assignment.problem
    limit = assignment.distance() * (1 + 1e-12)
    moved = assignment.returnable()
    for group in moved[np.argsort(-problem.price[moved], kind="stable")]:
        home, here = int(problem.home[group]), int(assignment.node[group])
        if not assignment.fits(np.array(group), np.array(home)):
            continue
        nodes = np.array([home, here])
        raw = assignment.raw[nodes] + problem.load[group] * np.array([1.0, -1.0])
        level = raw / problem.capacity[nodes]
        if (np.abs(level - problem.mean) <= limit).all() and raw[0] <= assignment.load_limit[home]:
            assignment.move(int(group), home)
