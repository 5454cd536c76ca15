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

from millrace.optimizers.albic.balancer import balance
from millrace.optimizers.albic.contraction import contract
from millrace.optimizers.albic.graph import heavy
from millrace.optimizers.albic.paper.collocation import PairPin, improve, maintain
from millrace.optimizers.albic.paper.milp import solve
from millrace.optimizers.albic.paper.options import LITERAL, AlbicOptions
from millrace.optimizers.albic.problem import Bools, Flows, Ints, Plan, Problem

FREE = -1
"""Pin of a unit that may go anywhere."""
MOST_VARIABLES = 1_000
"""Units times nodes up to which the program is solved: larger ones take minutes, and the balancer stands in."""
SEARCH_NODES = 50
"""Limit of the solver's search tree per phase: with it, the largest of these programs take a few seconds."""


def place(problem: Problem, *, seed: int = 0, options: AlbicOptions = LITERAL) -> Plan:
    """Return ALBIC's plan.

    Args:
        problem: The problem.
        seed: Seed of ties among pairs, of METIS and of the balancer.
        options: The paper's parameters and which corrections apply.
    """
    if (problem.node < 0).any():  # placing costs nothing
        problem = replace(problem, node=balance(replace(problem, budget=0.0), seed=seed).node)
    together = problem.together(problem.node)
    wanted = heavy(problem, options.s_f, zero_edges=options.zero_edges)
    max_pl = options.max_pl
    while True:
        plan, distance = _attempt(problem, wanted & together, wanted & ~together, max_pl, seed, options)
        if distance <= options.max_ld or max_pl <= 0:
            return plan
        max_pl = max(0.0, max_pl - options.step_pl)


def _attempt(
    problem: Problem, collocated: Bools, apart: Bools, max_pl: float, seed: int, options: AlbicOptions
) -> tuple[Plan, float]:
    """Return a plan for one maxPL, and the load distance to compare with maxLD."""
    units = maintain(problem, collocated, max_pl, options, seed)
    pure = max_pl <= 0 and options.ends_at_zero
    pinned = () if pure else improve(problem, units, apart, options, seed)
    small = contract(problem, units)
    if options.true_load:
        small = _take_off_savings(problem, small, units, pinned)
    pins = _pins(problem, units, pinned)
    of_units = _solve(small, pins, seed, options)
    node = of_units.node[units]
    true = problem.distance(node)
    stage = f"{of_units.stage}, {len(pinned)} pairs asked, maxPL {max_pl:g}"
    plan = Plan(node, 0.0, stage, seed)
    return plan, true if options.true_load else _assumed(small, of_units.node)


def _assumed(small: Problem, node: Ints) -> float:
    """Return the load distance if loads did not depend on collocation."""
    return replace(small, load=small.own(small.node), flows=Flows()).distance(node)


def _pins(problem: Problem, units: Ints, pairs: tuple[PairPin, ...]) -> Ints:
    """Return the node that each unit must go to, shape (U,)."""
    pins = np.full(int(units.max()) + 1, FREE, dtype=np.intp)
    for pair in pairs:
        for end in (problem.flows.producer[pair.flow], problem.flows.consumer[pair.flow]):
            pins[units[end]] = pair.node
    return pins


def _take_off_savings(problem: Problem, small: Problem, units: Ints, pairs: tuple[PairPin, ...]) -> Problem:
    """Return the units' problem minus what the pinned pairs will save."""
    load = small.load.copy()
    for pair in pairs:
        saved = problem.flows.saved[pair.flow]
        receiver = units[problem.flows.consumer[pair.flow]]
        load[receiver] = max(0.0, load[receiver] - saved)
    return replace(small, load=load)


def _solve(small: Problem, pins: Ints, seed: int, options: AlbicOptions) -> Plan:
    pinned = pins if (pins >= 0).any() else None
    if options.solver == "milp" and small.groups * small.nodes <= MOST_VARIABLES:
        return solve(small, pinned=pinned, search_nodes=SEARCH_NODES)
    return balance(small, pinned=pinned, seed=seed)
