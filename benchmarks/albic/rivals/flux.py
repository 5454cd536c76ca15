"""Flux: pair the hottest node with the coldest, and move the biggest partition that evens the two.

At the end of a period nodes are sorted by load, hottest first. The biggest suitable partition of the first goes to the
last, one of the second to the last but one, and so on; a partition is suitable if the variance of loads shrinks. Rounds
are repeated, each with a new sort, until moves run out or no pair has a suitable partition.

Flux takes loads as fixed and has no removed nodes, caps or costs. Here it works on kept nodes and counts moves by their
price, because [ALBIC] Section 5 limits it like the MILP. It leaves removed nodes and their groups alone. Groups without
a node are placed first, as in every plan.

Reference:
    [Flux] Shah, Hellerstein, Chandrasekaran, Franklin, "Flux: An Adaptive Partitioning Operator for Continuous Query
    Systems", 2003, as described in [ALBIC] Section 2.2.
"""

from __future__ import annotations

import numpy as np

from millrace.optimizers.albic.assignment import Assignment
from millrace.optimizers.albic.balance_problem import balance_problem
from millrace.optimizers.albic.constraints import place_unplaced
from millrace.optimizers.albic.problem import Plan, Problem

LEAST_GAIN = 1e-12
"""Squared points; less is rounding."""


def balance(problem: Problem) -> Plan:
    """Return Flux's plan, which proves nothing: its bound is 0.

    Args:
        problem: The problem; loads are those under the present placement, caps are respected but not eased.
    """
    assignment = Assignment(balance_problem(problem))
    place_unplaced(assignment)
    while _round(assignment):
        pass
    return Plan(node=assignment.node, bound=0.0, stage="flux")


def _round(assignment: Assignment) -> bool:
    """Do one round; return whether it moved anything."""
    kept = np.flatnonzero(assignment.problem.kept)
    order = kept[np.argsort(-assignment.raw[kept] / assignment.problem.capacity[kept], kind="stable")]
    moved = False
    for hot, cold in zip(order[: len(order) // 2], order[::-1], strict=False):
        group = _suitable(assignment, int(hot), int(cold))
        if group is not None:
            assignment.move(group, int(cold))
            moved = True
    return moved


def _suitable(assignment: Assignment, hot: int, cold: int) -> int | None:
    problem = assignment.problem
    groups = assignment.members(hot)
    if not len(groups):
        return None
    load, to = problem.load[groups], np.array(cold)
    a, b = (
        assignment.raw[hot] / problem.capacity[hot] - problem.mean,
        assignment.raw[cold] / problem.capacity[cold] - problem.mean,
    )
    after = (a - load / problem.capacity[hot]) ** 2 + (b + load / problem.capacity[cold]) ** 2
    price = assignment.price(groups, to)
    suitable = (a * a + b * b - after > LEAST_GAIN) & (price <= assignment.left()) & assignment.fits(groups, to)
    return int(groups[suitable][load[suitable].argmax()]) if suitable.any() else None
