"""Everything that comes before balance: a node for every group, caps that hold, and marked nodes emptied.

Aims of a plan, each before the next:
    1. every group has a node, and no more of a resource is used than a node has
    2. overloaded nodes are relieved, with half of the budget while there is anything to drain
    3. as many groups leave removed nodes as the rest pays for, the cheapest first, of equals the heaviest
    4. the load distance
With equal prices and no overloaded nodes, n groups on removed nodes are gone in ceil(n / budget) plans. While nodes are
overloaded, at least every second unit of the budget drains, for budgets of two moves or more.

Relief ends when it stops paying. While removed nodes hold load R, the kept ones are R / (sum of c) short of the mean on
average. Bringing a node nearer to the mean than that from above does not reduce the load distance. If that level is
above :data:`OVERLOADED`, relief continues down to :data:`OVERLOADED`, or to the mean.

Reference: [ALBIC] Section 4.3.1, "Supporting Horizontal Scale-In" and "Extending to Multi-Dimensional Load".
Deviations: Lemma 1 does not hold, so no move ever leads onto a removed node. Lemma 2 does not say that draining ends,
and with one heavy group that fixes d, or with groups of no load, the MILP never drains. So draining is an aim of its
own and counts groups, not load. An exceeded cap does not end the search: no plan exceeds it further, and moves that
ease it come first.
"""

from __future__ import annotations

import numpy as np

from millrace.optimizers.albic.assignment import Assignment
from millrace.optimizers.albic.balance_problem import BalanceProblem
from millrace.optimizers.albic.band_search import Band, BandSearch
from millrace.optimizers.albic.problem import UNPLACED
from millrace.optimizers.arrays import Floats, Ints

LEAST_RELIEF = 1e-9
"""Share of a limit; less is rounding."""
OVERLOADED = 90.0
"""Load from which a node counts as overloaded, points: no reserve is left for peaks that a period's average hides."""
RELIEF_SHARE = 0.5
"""Part of the budget that relief may use before draining."""


def place_unplaced(assignment: Assignment) -> None:
    """Place every group without a node on the node that is least loaded with it, the heaviest group first.

    Caps hold if there is room. A group that fits nowhere goes to the node where it exceeds them least.
    """
    problem = assignment.problem
    kept = np.flatnonzero(problem.kept)
    loose = np.flatnonzero(assignment.node == UNPLACED)
    for group in loose[np.argsort(-problem.load[loose], kind="stable")]:
        one = np.array(group)
        fitting = kept[assignment.fits(one, kept)]
        if not len(fitting):
            excess = _excess(assignment, kept, problem.use[:, group])
            fitting = kept[excess <= excess.min() * (1 + LEAST_RELIEF)]
        after = (assignment.raw[fitting] + problem.load[group]) / problem.capacity[fitting]
        assignment.move(int(group), int(fitting[after.argmin()]))
    assignment.ceiling = np.maximum(assignment.ceiling, assignment.used)


def ease_caps(assignment: Assignment) -> None:
    """Move groups away from nodes with exceeded caps within the budget; caps that hold afterwards must keep holding.

    Each move is the one that eases a cap most for its price. Excess that it causes elsewhere counts against it. The sum
    falls with every move, so groups cannot take turns forever.
    """
    problem = assignment.problem
    while len(problem.use):
        exceeded = np.flatnonzero((assignment.used > problem.limit * (1 + LEAST_RELIEF)).any(axis=0))
        steps = [s for i in exceeded if (s := _cap_relief(assignment, int(i))) is not None]
        if not steps:
            break
        _, group, to = max(steps)
        assignment.move(group, to)
    assignment.tighten()


def _cap_relief(assignment: Assignment, node: int) -> tuple[float, int, int] | None:
    problem = assignment.problem
    groups = assignment.members(node)
    groups = groups[~problem.fixed[groups]]
    kept = np.flatnonzero(problem.kept)
    kept = kept[kept != node]
    if not len(groups) or not len(kept):
        return None
    one, to = groups[:, None], kept[None, :]
    limit, used = problem.limit[:, node], assignment.used[:, node]
    before = np.maximum(used / limit - 1, 0).sum()
    after = np.maximum((used[:, None] - problem.use[:, groups]) / limit[:, None] - 1, 0).sum(axis=0)
    there = np.stack([_excess(assignment, kept, problem.use[:, group]) for group in groups])
    relief = (before - after)[:, None] - (there - _excess(assignment, kept, np.zeros(len(limit))))
    price = assignment.price(one, to)
    allowed = assignment.fits(one, to) & (price <= assignment.left()) & (relief > LEAST_RELIEF)
    unit = float(problem.price.mean()) or 1.0
    score = np.where(allowed, relief / (np.maximum(price, 0) / unit + LEAST_RELIEF), -np.inf)
    best = score == score.max()
    # among equals, the least loaded node
    filled = np.where(best & allowed, ((assignment.raw[to] + problem.load[one]) / problem.capacity[to]), np.inf)
    row, column = np.unravel_index(int(filled.argmin()), filled.shape)
    if not allowed[row, column]:
        return None
    return float(score[row, column]), int(groups[row]), int(kept[column])


def _excess(assignment: Assignment, nodes: Ints, use: Floats) -> Floats:
    """Return by how much a group would exceed caps on nodes, shares of the limits summed, shape of ``nodes``."""
    limit = assignment.problem.limit[:, nodes]
    return np.asarray(np.maximum((assignment.used[:, nodes] + use[:, None]) / limit - 1, 0).sum(axis=0))


def drain(assignment: Assignment) -> str | None:
    """Relieve overloaded nodes, then move groups off removed ones.

    Returns:
        The stage for the plan: ``drained`` if no group is left on removed nodes, ``draining`` if some are, None if
        there were none.
    """
    waiting = _waiting(assignment)
    if not len(waiting):
        return None
    _relieve_overloaded(assignment)
    _move_off(assignment, waiting)
    return "draining" if len(_waiting(assignment)) else "drained"


def load_ceiling(assignment: Assignment) -> Floats:
    """Return the load that nodes may have after relief, raw points, shape (N,).

    While groups wait on removed nodes, balancing must not reload nodes that were just relieved. It would bring all
    overloaded nodes down to the limit, and from there nothing would be urgent any more.
    """
    problem = assignment.problem
    if not len(_waiting(assignment)):
        return np.full(len(problem.capacity), np.inf)
    return np.where(problem.kept, np.maximum(_relief_end(problem), assignment.raw), np.inf)


def _relief_end(problem: BalanceProblem) -> Floats:
    """Return the load at which relief of a node ends, raw points, shape (N,)."""
    kept_load = problem.raw(problem.start)[problem.kept].sum() / problem.capacity[problem.kept].sum()
    return problem.capacity * max(problem.mean, min(2 * problem.mean - float(kept_load), OVERLOADED))


def _waiting(assignment: Assignment) -> Ints:
    """Return the groups on removed nodes that may leave them."""
    problem = assignment.problem
    return np.flatnonzero((assignment.node >= 0) & ~problem.kept[assignment.node] & ~problem.fixed)


def _relieve_overloaded(assignment: Assignment) -> None:
    """Relieve overloaded nodes one after another, the hottest first: easing all a little would end at the limit."""
    problem = assignment.problem
    loads = assignment.raw / problem.capacity
    hot = np.flatnonzero(problem.kept & (loads > OVERLOADED))
    level = _relief_end(problem)
    # one move is always allowed, otherwise a budget of one move would never relieve
    share = max(problem.budget * RELIEF_SHARE, assignment.spent + problem.price.max(initial=0.0))
    for node in hot[np.argsort(-loads[hot], kind="stable")]:
        high = np.where(problem.kept, np.maximum(level, assignment.raw), np.inf)
        high[node] = level[node]
        band = Band(np.full(len(high), -np.inf), high)
        BandSearch(assignment, band, min(problem.affordable, share)).descend()


def _move_off(assignment: Assignment, waiting: Ints) -> None:
    problem = assignment.problem
    kept = np.flatnonzero(problem.kept)
    for group in waiting[np.lexsort((-problem.load[waiting], problem.price[waiting]))]:
        one = np.array(group)
        if problem.price[group] > assignment.left():
            break
        fitting = kept[assignment.fits(one, kept)]
        if len(fitting):
            after = (assignment.raw[fitting] + problem.load[group]) / problem.capacity[fitting]
            assignment.move(int(group), int(fitting[after.argmin()]))
