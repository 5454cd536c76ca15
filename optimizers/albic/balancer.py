"""The certified balancer: a plan within the budget, and a load distance that no plan can undercut.

A plan goes through stages: every group gets a node, exceeded caps are eased, removed nodes are drained
(:mod:`constraints` has the order), then the load distance is brought down, and last, what
does not help it is taken back. A move is never made for less than rounding.

The load distance is brought down by aiming: at the proven bound first, then between what was reached and what was not,
from where the stages before left off and from the best plan so far (:mod:`band_search`).

Loads of groups are taken as they are under the present placement, whoever sits beside whom afterwards. It ignores flows
otherwise; the joint search does not.

Reference: own; the aim is that of the MILP in [ALBIC] Section 4.3.1. Deviations: d is minimised first, then what the
moves cost; the paper's d_u and d_l are left to :mod:`paper.milp`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from millrace.optimizers.albic.assignment import Assignment
from millrace.optimizers.albic.balance_bound import bound_of
from millrace.optimizers.albic.balance_problem import balance_problem
from millrace.optimizers.albic.band_search import bring_into_band
from millrace.optimizers.albic.constraints import drain, ease_caps, load_ceiling, place_unplaced
from millrace.optimizers.albic.problem import Ints, Plan, Problem

AIMS = 7
"""Load distances that are aimed at, one after another."""
NEAR = 0.001
"""Points above the bound that are as good as the bound."""
SMALL = 100_000
"""Nodes times groups up to which all that is done."""
LARGE_AIMS = 2
"""Load distances that are aimed at on larger problems, each from where the one before left off."""
LARGE_OFFSET = 0.1
"""Points above the bound that are aimed at first there: every node is brought so far before any is brought nearer."""
RETRIES = 5
"""How often a dead end is tried again for each aim, at most."""
ROUNDS = 3
"""How often nodes are set aside that fix the load distance, to balance the others."""
WORTH = 1.0
"""Points from their own mean up to which the others are left alone."""


def balance(problem: Problem, *, pinned: Ints | None = None, seed: int = 0) -> Plan:
    """Return a plan within the budget, and how good it is at most.

    Args:
        problem: The problem. Loads are those under the present placement.
        pinned: Node that each group must be on afterwards, shape (K,), -1 for any. Pins cost what their moves cost.
            If they exceed the budget or a cap, or lead onto a removed node, all pinned groups stay where they are, and
            the stage says so.
        seed: Of the search; the same problem and seed give the same plan.
    """
    fixed = balance_problem(problem, pinned)
    assignment = Assignment(fixed)
    place_unplaced(assignment)
    ease_caps(assignment)
    drained = drain(assignment)
    assignment.load_limit = load_ceiling(assignment)
    bound = bound_of(fixed)
    assignment = _descend(assignment, bound, np.random.default_rng(seed))
    _give_back(assignment)
    assignment = _balance_others(assignment, np.random.default_rng(seed))
    stages = ["pins dropped"] * fixed.dropped + [drained or ""] + ["balanced"]
    return Plan(
        node=assignment.node,
        bound=min(bound, fixed.distance(assignment.node)),
        stage=", ".join(filter(None, stages)),
        seed=seed,
    )


def _descend(start: Assignment, bound: float, rng: np.random.Generator) -> Assignment:
    """Bring the load distance down by aiming at ever nearer ones."""
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
    """Balance what is left when a few nodes fix the load distance: a heavy group must not excuse all the others."""
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
        if rest.distance() <= WORTH:
            break
        assignment = _descend(rest, 0.0, rng)
        _give_back(assignment)
    return assignment.copy_with(assignment.node, whole)


def _give_back(assignment: Assignment) -> None:
    """Take back moves that the load distance does not need, the dearest first."""
    problem = assignment.problem
    limit = assignment.distance() * (1 + 1e-12)
    moved = np.flatnonzero((assignment.node != problem.home) & (problem.home >= 0) & ~problem.fixed)
    moved = moved[problem.kept[problem.home[moved]]]
    for group in moved[np.argsort(-problem.price[moved], kind="stable")]:
        home, here = int(problem.home[group]), int(assignment.node[group])
        if not assignment.fits(np.array(group), np.array(home)):
            continue
        nodes = np.array([home, here])
        raw = assignment.raw[nodes] + problem.load[group] * np.array([1.0, -1.0])
        level = raw / problem.capacity[nodes]
        if (np.abs(level - problem.mean) <= limit).all() and raw[0] <= assignment.load_limit[home]:
            assignment.move(int(group), home)
