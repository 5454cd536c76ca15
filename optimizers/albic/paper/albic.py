"""ALBIC: load balancing with one more collocated pair per period ([ALBIC], Section 4.3.2, Algorithm 2).

1. Scores: heavy flows, those within a node (colGrps) and those between nodes (toBeColGrps): :mod:`graph`.
2. Maintain: collocated groups move as one, in partitions that are not too large: :mod:`collocation`.
3. Improve: the heaviest pair that is apart is pinned to one node: :mod:`collocation`.
4. Solve: the allocation problem over units with that pair fixed. If the load distance exceeds maxLD, again with a
   smaller maxPL, down to 0: pure balance.

Deviations: groups without a node are placed first, by the balancer, because the paper has none. A program without a
solution gives the plan "no move". The balancer stands in for the program where open solvers take minutes for it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from millrace.optimizers.albic.balance_problem import FREE
from millrace.optimizers.albic.balancer import balance
from millrace.optimizers.albic.contraction import contract
from millrace.optimizers.albic.graph import heavy
from millrace.optimizers.albic.paper.collocation import PairPin, improve, maintain
from millrace.optimizers.albic.paper.milp import solve
from millrace.optimizers.albic.paper.options import LITERAL, AlbicOptions
from millrace.optimizers.albic.problem import Flows, Plan, Problem
from millrace.optimizers.arrays import Bools, Ints

MAX_LD = 10.0
"""maxLD, load distance that collocation may leave, points."""
MAX_PL, STEP_PL = 25.0, 5.0
"""maxPL, load of a partition at the first attempt, and stepPL, by which the next attempt lowers it, points."""
MOST_VARIABLES = 1_000
"""Units times nodes up to which the program is solved: larger ones take minutes, and the balancer stands in."""
SEARCH_NODES = 50
"""Limit of the solver's search tree per phase: with it, the largest of these programs take a few seconds."""


def place(problem: Problem, *, seed: int = 0, options: AlbicOptions = LITERAL) -> Plan:
    """Return ALBIC's plan.

    Args:
        problem: The problem.
        seed: Seed of ties among pairs, of METIS and of the balancer.
        options: Whether it is corrected, and its solver.
    """
    if (problem.node < 0).any():  # placing costs nothing
        problem = replace(problem, node=balance(replace(problem, budget=0.0), seed=seed).node)
    together = problem.flows.near(problem.node)
    wanted = heavy(problem)
    max_pl = MAX_PL
    while True:
        plan, distance = _attempt(problem, wanted & together, wanted & ~together, max_pl, seed, options)
        if distance <= MAX_LD or max_pl <= 0:
            return plan
        max_pl = max(0.0, max_pl - STEP_PL)


def _attempt(
    problem: Problem, collocated: Bools, apart: Bools, max_pl: float, seed: int, options: AlbicOptions
) -> tuple[Plan, float]:
    """Return a plan for one maxPL, and the load distance to compare with maxLD."""
    units = maintain(problem, collocated, max_pl, options, seed)
    pure = max_pl <= 0 and options.corrected
    pin = None if pure else improve(problem, units, apart, options, seed)
    small = contract(problem, units)
    if options.corrected and pin is not None:
        small = _take_off_savings(problem, small, units, pin)
    of_units = _solve(small, None if pin is None else _pins(problem, units, pin), seed, options)
    node = of_units.node[units]
    true = problem.distance(node)
    stage = f"{of_units.stage}, {int(pin is not None)} pairs asked, maxPL {max_pl:g}"
    return Plan(node, 0.0, stage), true if options.corrected else _assumed(small, of_units.node)


def _assumed(small: Problem, node: Ints) -> float:
    """Return the load distance if loads did not depend on collocation."""
    return replace(small, load=small.own(small.node), flows=Flows()).distance(node)


def _pins(problem: Problem, units: Ints, pin: PairPin) -> Ints:
    """Return the node that each unit must go to, shape (U,)."""
    pins = np.full(int(units.max()) + 1, FREE, dtype=np.intp)
    for end in (problem.flows.producer[pin.flow], problem.flows.consumer[pin.flow]):
        pins[units[end]] = pin.node
    return pins


def _take_off_savings(problem: Problem, small: Problem, units: Ints, pin: PairPin) -> Problem:
    """Return the units' problem minus what the pinned pair will save."""
    load = small.load.copy()
    receiver = units[problem.flows.consumer[pin.flow]]
    load[receiver] = max(0.0, load[receiver] - problem.flows.saved[pin.flow])
    return replace(small, load=load)


def _solve(small: Problem, pinned: Ints | None, seed: int, options: AlbicOptions) -> Plan:
    if options.solver == "milp" and small.groups * small.nodes <= MOST_VARIABLES:
        return solve(small, pinned=pinned, search_nodes=SEARCH_NODES)
    return balance(small, pinned=pinned, seed=seed)
