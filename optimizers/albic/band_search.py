"""Bring every node into a band of loads with few moves: the worst node first, by moves and swaps.

A node's violation is its distance from the band, points. Each step takes the worst node and considers all moves of its
groups to its partners, all moves from them, and all swaps. It makes the one that removes most violation for its price.
A move back home earns its price back. If none helps, two nodes exchange all groups that came to them: few moves are
soon spent, and the remaining choice is which node gets the most. If nothing helps any more, some moves are taken back
and the search continues from there. The best placement seen is kept.

On small problems all nodes are partners, on large ones the nodes farthest on the other side.

Reference: own; [ALBIC] Section 4.3.1 leaves this to a solver, which at 40 nodes does worse than Flux in 10 s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millrace.optimizers.albic.assignment import Assignment
from millrace.optimizers.albic.balance_problem import SLACK, BalanceProblem
from millrace.optimizers.arrays import Floats, Ints

ALL_PARTNERS = 80_000
"""Nodes times groups up to which every node is considered as a partner."""
PARTNERS = 2
"""Number of partners above that: the nodes that most need a change in the other direction."""
FREE_MOVE = 0.05
"""Price of a free move in a comparison, as a share of the mean price: it still wins by far."""
EVENNESS = 1e-3
"""Weight of evenness between two nodes against removed violation: it only breaks ties."""
LEAST_GAIN = 1e-9
"""Points; less is rounding."""
MOST_STEPS = 8
"""Limit of the steps in one descent, per group of the problem: far more than any needs."""
TAKEN_BACK = 3
"""Moves that are taken back at a dead end."""


@dataclass(frozen=True)
class Band:
    """Allowed range of each node's load, raw points, shape (N,) each; infinite for removed nodes."""

    low: Floats
    high: Floats

    @classmethod
    def around(cls, assignment: Assignment, d: float) -> Band:
        """Return the band of a load distance, cut off at the load limits of the nodes."""
        problem = assignment.problem
        low = np.where(problem.kept, problem.capacity * (problem.mean - d), -np.inf)
        high = np.where(problem.kept, np.minimum(problem.capacity * (problem.mean + d), assignment.load_limit), np.inf)
        return cls(low, high)

    def outside(self, problem: BalanceProblem, nodes: Ints, raw: Floats) -> Floats:
        """Return the violation of nodes at raw loads, points, shapes broadcast."""
        beyond = np.maximum(self.low[nodes] - raw, raw - self.high[nodes])
        return np.asarray(np.maximum(beyond, 0.0) / problem.capacity[nodes])


@dataclass(frozen=True)
class BandStep:
    """One change: a group moves to a node or, if ``other`` is set, swaps places with it."""

    score: float
    group: int
    to: int
    other: int = -1


class BandSearch:
    """Brings an assignment into a band.

    Attributes:
        assignment: The assignment, which is changed.
        band: The band.
        budget: Limit of the cost of all moves of the assignment.
    """

    def __init__(self, assignment: Assignment, band: Band, budget: float) -> None:
        self.assignment, self.band, self.budget = assignment, band, budget
        problem = assignment.problem
        self._all = len(problem.capacity) * len(problem.load) <= ALL_PARTNERS
        self._unit = float(problem.price.mean()) or 1.0
        self._kept: Ints = np.flatnonzero(problem.kept)
        self._nodes: Ints = np.arange(len(problem.capacity))
        self._load_scale = float(problem.load.mean()) or 1.0

    def violation(self) -> Floats:
        """Return the violation of each node, points, shape (N,)."""
        return self.band.outside(self.assignment.problem, self._nodes, self.assignment.raw)

    def descend(self) -> bool:
        """Take the best step of the worst node until all are inside or none helps; return whether all are inside."""
        stuck = np.zeros(len(self._nodes), dtype=bool)
        for _ in range(MOST_STEPS * len(self.assignment.problem.load) + len(stuck)):
            violation = np.where(stuck, 0.0, self.violation())
            worst = int(violation.argmax())
            if violation[worst] <= LEAST_GAIN:
                return not stuck.any() or bool(self.violation().max() <= LEAST_GAIN)
            step = self.best(worst)
            if step is not None:
                self.make(step)
            elif not self.exchange_guests(worst):
                stuck[worst] = True
                continue
            stuck[:] = False
        return bool(self.violation().max() <= LEAST_GAIN)

    def make(self, step: BandStep) -> None:
        """Apply a step to the assignment."""
        if step.other < 0:
            self.assignment.move(step.group, step.to)
        else:
            self.assignment.exchange(step.group, step.other)

    def exchange_guests(self, worst: int) -> bool:
        """Let two nodes exchange all groups that are not at home there; return whether a partner was found.

        This costs nothing; a group that gets home earns its price back.
        """
        assignment, problem, band = self.assignment, self.assignment.problem, self.band
        guest = (assignment.node != problem.home) & ~problem.fixed
        others = self._kept[self._kept != worst]
        if not problem.kept[worst] or not len(others):
            return False
        held = np.bincount(assignment.node[guest], problem.load[guest], len(self._nodes))
        raw, more = assignment.raw, held[others] - held[worst]
        before = band.outside(problem, others, raw[others])
        after = band.outside(problem, others, raw[others] - more)
        gain = before - after + float(self.violation()[worst])
        gain -= band.outside(problem, np.array(worst), raw[worst] + more)
        other = int(others[gain.argmax()])
        if gain.max() <= LEAST_GAIN:
            return False
        node = assignment.node.copy()
        mine, theirs = guest & (node == worst), guest & (node == other)
        _place(assignment, np.select([mine, theirs], [other, worst], node))
        if assignment.within_caps():
            return True
        _place(assignment, node)
        return False

    def best(self, worst: int) -> BandStep | None:
        """Return the best step of a node; None if none removes violation within the budget."""
        assignment, problem, band = self.assignment, self.assignment.problem, self.band
        hot = assignment.raw[worst] > band.high[worst]
        partners = self._partners(worst, hot)
        own = self._free(assignment.members(worst))
        theirs = self._free(np.concatenate([assignment.members(int(j)) for j in partners]))
        if hot:
            move = self._moves(own[:, None], partners[problem.kept[partners]][None, :])
        else:
            move = self._moves(theirs[:, None], np.array([[worst]]))
        violation = float(band.outside(problem, np.array(worst), assignment.raw[worst]))
        if move is not None and (move[1] >= violation / 2 or self._plenty(move[1], own if hot else theirs)):
            return move[0]
        swap = self._swaps(own, theirs)
        steps = [s for s in (move, swap) if s is not None]
        return max(steps, key=lambda s: s[0].score)[0] if steps else None

    def _plenty(self, gain: float, groups: Ints) -> bool:
        """Return whether a move removes so much that, on a large problem, swaps need not be considered."""
        return not self._all and gain >= float(self.assignment.problem.load[groups].max())

    def _partners(self, worst: int, hot: bool) -> Ints:
        assignment, problem = self.assignment, self.assignment.problem
        others: Ints = self._nodes if self._all else self._kept
        others = others[others != worst]
        if self._all or len(others) <= PARTNERS:
            return others
        level = assignment.raw[others] / problem.capacity[others]
        return self._first(others, level if hot else -level)

    @staticmethod
    def _first(nodes: Ints, rank: Floats) -> Ints:
        return np.asarray(nodes[np.argpartition(rank, PARTNERS)[:PARTNERS]])

    def _free(self, groups: Ints) -> Ints:
        return np.asarray(groups[~self.assignment.problem.fixed[groups]])

    def _moves(self, groups: Ints, to: Ints) -> tuple[BandStep, float] | None:
        """Return the best move of groups to nodes, shapes broadcast to a matrix, and the violation that it removes."""
        if not groups.size or not to.size:
            return None
        assignment, problem = self.assignment, self.assignment.problem
        weight = problem.load[groups]
        price = assignment.price(groups, to)
        gain, even = self._gain(assignment.node[groups], to, weight)
        allowed = (price + assignment.spent <= self.budget) & (gain > LEAST_GAIN) & (assignment.node[groups] != to)
        if len(problem.use) and allowed.any():
            allowed &= assignment.fits(groups, to)
        score = self._score(gain, even, price, allowed)
        at = int(score.argmax())
        row, column = np.unravel_index(at, score.shape)
        if not allowed[row, column]:
            return None
        group, node = int(groups[row, 0]), int(to[0, column])
        return BandStep(float(score[row, column]), group, node), float(gain[row, column])

    def _swaps(self, own: Ints, theirs: Ints) -> tuple[BandStep, float] | None:
        """Return the best swap of groups of two lists, and the violation that it removes."""
        if not own.size or not theirs.size:
            return None
        assignment, problem = self.assignment, self.assignment.problem
        mine, others = own[:, None], theirs[None, :]
        here, there = assignment.node[mine], assignment.node[others]
        gain, even = self._gain(here, there, problem.load[mine] - problem.load[others])
        price = assignment.price(mine, there) + assignment.price(others, here)
        allowed = (price + assignment.spent <= self.budget) & (gain > LEAST_GAIN)
        # a removed node only gets back its own groups
        allowed &= problem.kept[there] | (problem.home[mine] == there)
        allowed &= problem.kept[here] | (problem.home[others] == here)
        if len(problem.use) and allowed.any():
            allowed &= assignment.exchangeable(mine, others)
        score = self._score(gain, even, price, allowed)
        row, column = np.unravel_index(int(score.argmax()), score.shape)
        if not allowed[row, column]:
            return None
        step = BandStep(float(score[row, column]), int(own[row]), int(there[0, column]), int(theirs[column]))
        return step, float(gain[row, column])

    def _gain(self, source: Ints, target: Ints, weight: Floats) -> tuple[Floats, Floats]:
        """Return the violation and the unevenness that moving weight from source to target removes, points."""
        assignment, problem, band = self.assignment, self.assignment.problem, self.band
        a, b = assignment.raw[source], assignment.raw[target]
        before = band.outside(problem, source, a) + band.outside(problem, target, b)
        after = band.outside(problem, source, a - weight) + band.outside(problem, target, b + weight)
        c_a, c_b = problem.capacity[source], problem.capacity[target]
        even = (
            2 * weight * (a / c_a - b / c_b) / self._load_scale
            - weight * weight * (1 / c_a + 1 / c_b) / self._load_scale
        )
        return before - after, even

    def _score(self, gain: Floats, even: Floats, price: Floats, allowed: np.ndarray) -> Floats:
        effort = np.maximum(price / self._unit, 0.0) + FREE_MOVE
        return np.where(allowed, (gain + EVENNESS * even) / effort, -np.inf)


def bring_into_band(assignment: Assignment, d: float, budget: float, rng: np.random.Generator, retries: int) -> None:
    """Bring an assignment within a load distance of the mean; if the search gets stuck, leave the best one seen.

    Args:
        assignment: Start of the search; it is changed.
        d: The load distance, points.
        budget: Limit of the cost of its moves.
        rng: Draws the moves that are taken back at a dead end.
        retries: Most retries after dead ends, >= 0.
    """
    search = BandSearch(assignment, Band.around(assignment, d), budget)
    best, least = assignment.node.copy(), np.inf
    for attempt in range(retries + 1):
        inside = search.descend()
        total = float(search.violation().sum())
        if total < least - LEAST_GAIN:
            best, least = assignment.node.copy(), total
        elif total > least * (1 + SLACK):
            _place(assignment, best)
        if inside:
            return
        if attempt < retries:
            _take_back(search, rng)
    _place(assignment, best)


def _place(assignment: Assignment, node: Ints) -> None:
    for group in np.flatnonzero(assignment.node != node):
        assignment.move(int(group), int(node[group]))


def _take_back(search: BandSearch, rng: np.random.Generator) -> None:
    """Send some moved groups home: one of the worst node, and random others."""
    assignment, problem = search.assignment, search.assignment.problem
    moved = assignment.returnable()
    if not len(moved):
        return
    worst = int(search.violation().argmax())
    near = moved[(assignment.node[moved] == worst) | (problem.home[moved] == worst)]
    picked = rng.choice(moved, min(TAKEN_BACK - 1, len(moved)), replace=False)
    if len(near):
        picked = np.append(picked, rng.choice(near))
    for group in np.unique(picked):
        if assignment.fits(np.array(group), problem.home[group]):
            assignment.move(int(group), int(problem.home[group]))
