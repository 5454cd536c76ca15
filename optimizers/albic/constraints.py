"""What comes before balance: a node for every group, caps that hold, and marked nodes emptied.

The order of what a plan is after, each before the next:
    1. every group has a node, and no more of a resource is used than a node has
    2. overloaded nodes are relieved, with half of the budget while there is anything to drain
    3. as many groups leave removed nodes as the rest pays for, the cheapest first, of equals the heaviest
    4. the load distance
So with equal prices and nothing overloaded, n groups on removed nodes are gone in ceil(n / budget) plans; while nodes
are overloaded at least every second unit of the budget drains, for budgets of two moves or more.

Relief ends where it stops to pay: while removed nodes hold load R, the kept ones are R / (sum of c) short of the mean
on average, so bringing a node nearer to the mean than that from above does not make the load distance smaller. If that
is above :data:`OVERLOADED`, relief goes on to there, or to the mean.

Reference: [ALBIC] Section 4.3.1, "Supporting Horizontal Scale-In" and "Extending to Multi-Dimensional Load".
Deviations: Lemma 1 does not hold, so no move ever leads onto a removed node. Lemma 2 does not say that draining ends,
and with one heavy group that fixes d, or with groups of no load, the MILP never drains: draining is an aim of its own,
and counts groups, not load. A cap that is exceeded already is no reason to give up: no plan exceeds it
further, and moves that ease it come first.
"""

from __future__ import annotations

import numpy as np

from millrace.optimizers.albic.assignment import Assignment
from millrace.optimizers.albic.balance_problem import BalanceProblem
from millrace.optimizers.albic.band_search import Band, BandSearch
from millrace.optimizers.albic.problem import UNPLACED, Floats, Ints

LEAST_RELIEF = 1e-9
"""Share of a limit; less is rounding."""
OVERLOADED = 90.0
"""Points from which a node counts as overloaded: nothing is left for what a period's average does not show."""
RELIEF_SHARE = 0.5
"""Part of the budget that relief may take before draining has its turn."""


def place_unplaced(assignment: Assignment) -> None:
    """Give every group without a node the one that is loaded least with it, the heaviest group first.

    Caps hold where there is room. A group that fits nowhere goes where it exceeds them least.
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
    """Move groups away from nodes where caps are exceeded, as far as the budget goes; afterwards caps hold that do now.

    Of all moves that ease a cap the one is made that eases most for its price. Excess that it causes elsewhere counts
    against it: the sum falls with every move, so no groups take turns for ever.
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
    # among equals the node that is loaded least
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
        The stage for the plan: ``drained`` if none is left there, ``draining`` if some are, None if none was.
    """
    waiting = _waiting(assignment)
    if not len(waiting):
        return None
    _relieve_overloaded(assignment)
    _move_off(assignment, waiting)
    return "draining" if len(_waiting(assignment)) else "drained"


def load_ceiling(assignment: Assignment) -> Floats:
    """Return what nodes may be loaded with once relief is done, raw points, shape (N,).

    While groups wait on removed nodes, balance must not load again whom relief has just relieved: it would even all
    that are overloaded to the limit, from where nothing is urgent any more.
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
    """Relieve overloaded nodes one after another, the hottest first: to ease all a little would end at the limit."""
    problem = assignment.problem
    loads = assignment.raw / problem.capacity
    hot = np.flatnonzero(problem.kept & (loads > OVERLOADED))
    level = _relief_end(problem)
    # one move is always allowed, else a budget of one move would never relieve
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
