"""Bring every node into a band of loads with few moves: the worst node first, by moves and swaps.

A node's violation is how far it is outside the band, points. Each step takes the worst node and looks at all moves
of its groups to its partners, of theirs to it, and at all swaps; the one that takes away most violation for its
price is made. What leads home earns its price back. When nothing helps any more some moves are taken back, and
the search goes on from there; the best placement seen is kept.

Partners are all nodes on small problems, the nodes farthest on the other side on large ones.

Reference: own; [ALBIC] Section 4.3.1 leaves this to a solver, which at 40 nodes does worse than Flux in 10 s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimizers.albic.balance.board import Board
from optimizers.albic.balance.frame import SLACK, Frame
from optimizers.albic.problem import Floats, Ints

ALL_PARTNERS = 80_000
"""Nodes times groups up to which every node is looked at as a partner."""

PARTNERS = 2
"""How many are, above that: those that need a change the other way most."""

FREE_MOVE = 0.05
"""What a move that costs nothing counts in a comparison, as a share of the mean price: it still wins by far."""

EVENNESS = 1e-3
"""Weight of how even two nodes get, against the violation that is taken away: it only tells equals apart."""

LEAST_GAIN = 1e-9
"""Points; less is rounding."""

MOST_STEPS = 8
"""Steps that one descent may take, in groups of the problem: far more than any needs."""

TAKEN_BACK = 3
"""How many moves are taken back at a dead end."""


@dataclass(frozen=True)
class Band:
    """Where the load of each node has to be, raw points, shape (N,) each; infinite for removed ones."""

    low: Floats
    high: Floats

    @classmethod
    def around(cls, board: Board, d: float) -> Band:
        """Return the band of a load distance, below what nodes may have at most."""
        frame = board.frame
        low = np.where(frame.kept, frame.capacity * (frame.mean - d), -np.inf)
        high = np.where(frame.kept, np.minimum(frame.capacity * (frame.mean + d), board.most), np.inf)
        return cls(low, high)

    def outside(self, frame: Frame, nodes: Ints, raw: Floats) -> Floats:
        """Return the violation of nodes at raw loads, points, shapes broadcast."""
        beyond = np.maximum(self.low[nodes] - raw, raw - self.high[nodes])
        found: Floats = np.maximum(beyond, 0.0) / frame.capacity[nodes]
        return found


@dataclass(frozen=True)
class Step:
    """One change: a group to a node, or, with another, that the two change places."""

    score: float
    group: int
    to: int
    other: int = -1


class Search:
    """Brings a board into a band.

    Attributes:
        board: What is changed.
        band: Where it is to come.
        budget: What the board's moves may cost together.
    """

    def __init__(self, board: Board, band: Band, budget: float) -> None:
        self.board, self.band, self.budget = board, band, budget
        frame = board.frame
        self._all = len(frame.capacity) * len(frame.load) <= ALL_PARTNERS
        self._unit = float(frame.price.mean()) or 1.0
        self._kept: Ints = np.flatnonzero(frame.kept)
        self._nodes: Ints = np.arange(len(frame.capacity))
        self._load_scale = float(frame.load.mean()) or 1.0

    def violation(self) -> Floats:
        """Return the violation of each node, points, shape (N,)."""
        return self.band.outside(self.board.frame, self._nodes, self.board.raw)

    def descend(self) -> bool:
        """Take the best step of the worst node until all are inside or none helps; say whether all are inside."""
        stuck = np.zeros(len(self._nodes), dtype=bool)
        for _ in range(MOST_STEPS * len(self.board.frame.load) + len(stuck)):
            violation = np.where(stuck, 0.0, self.violation())
            worst = int(violation.argmax())
            if violation[worst] <= LEAST_GAIN:
                return not stuck.any() or bool(self.violation().max() <= LEAST_GAIN)
            step = self.best(worst)
            if step is None:
                stuck[worst] = True
                continue
            self.make(step)
            stuck[:] = False
        return bool(self.violation().max() <= LEAST_GAIN)

    def make(self, step: Step) -> None:
        """Change the board."""
        if step.other < 0:
            self.board.move(step.group, step.to)
        else:
            self.board.exchange(step.group, step.other)

    def best(self, worst: int) -> Step | None:
        """Return the best step of a node; None if none takes violation away within the budget."""
        board, frame, band = self.board, self.board.frame, self.band
        hot = board.raw[worst] > band.high[worst]
        partners = self._partners(worst, hot)
        own = self._free(board.members(worst))
        theirs = self._free(np.concatenate([board.members(int(j)) for j in partners]))
        if hot:
            move = self._moves(own[:, None], partners[frame.kept[partners]][None, :])
        else:
            move = self._moves(theirs[:, None], np.array([[worst]]))
        violation = float(band.outside(frame, np.array(worst), board.raw[worst]))
        if move is not None and (move[1] >= violation / 2 or self._plenty(move[1], own if hot else theirs)):
            return move[0]
        swap = self._swaps(own, theirs)
        found = [s for s in (move, swap) if s is not None]
        return max(found, key=lambda s: s[0].score)[0] if found else None

    def _plenty(self, gain: float, groups: Ints) -> bool:
        """Say whether a move takes away so much that, on a large problem, swaps need not be looked at."""
        return not self._all and gain >= float(self.board.frame.load[groups].max())

    def _partners(self, worst: int, hot: bool) -> Ints:
        board, frame = self.board, self.board.frame
        others: Ints = self._nodes if self._all else self._kept
        others = others[others != worst]
        if self._all or len(others) <= PARTNERS:
            return others
        level = board.raw[others] / frame.capacity[others]
        return self._first(others, level if hot else -level)

    @staticmethod
    def _first(nodes: Ints, rank: Floats) -> Ints:
        first: Ints = nodes[np.argpartition(rank, PARTNERS)[:PARTNERS]]
        return first

    def _free(self, groups: Ints) -> Ints:
        free: Ints = groups[~self.board.frame.fixed[groups]]
        return free

    def _moves(self, groups: Ints, to: Ints) -> tuple[Step, float] | None:
        """Return the best move of groups to nodes, shapes broadcast to a matrix, and the violation it takes away."""
        if not groups.size or not to.size:
            return None
        board, frame = self.board, self.board.frame
        weight = frame.load[groups]
        price = board.price(groups, to)
        gain, even = self._gain(board.node[groups], to, weight)
        allowed = (price + board.spent <= self.budget) & (gain > LEAST_GAIN) & (board.node[groups] != to)
        if len(frame.use) and allowed.any():
            allowed &= board.fits(groups, to)
        score = self._score(gain, even, price, allowed)
        at = int(score.argmax())
        row, column = np.unravel_index(at, score.shape)
        if not allowed[row, column]:
            return None
        group, node = int(groups[row, 0]), int(to[0, column])
        return Step(float(score[row, column]), group, node), float(gain[row, column])

    def _swaps(self, own: Ints, theirs: Ints) -> tuple[Step, float] | None:
        """Return the best swap of groups of two lists, and the violation it takes away."""
        if not own.size or not theirs.size:
            return None
        board, frame = self.board, self.board.frame
        mine, others = own[:, None], theirs[None, :]
        here, there = board.node[mine], board.node[others]
        gain, even = self._gain(here, there, frame.load[mine] - frame.load[others])
        price = board.price(mine, there) + board.price(others, here)
        allowed = (price + board.spent <= self.budget) & (gain > LEAST_GAIN)
        # a removed node only gets back what it had
        allowed &= frame.kept[there] | (frame.home[mine] == there)
        allowed &= frame.kept[here] | (frame.home[others] == here)
        if len(frame.use) and allowed.any():
            allowed &= board.exchangeable(mine, others)
        score = self._score(gain, even, price, allowed)
        row, column = np.unravel_index(int(score.argmax()), score.shape)
        if not allowed[row, column]:
            return None
        step = Step(float(score[row, column]), int(own[row]), int(there[0, column]), int(theirs[column]))
        return step, float(gain[row, column])

    def _gain(self, source: Ints, target: Ints, weight: Floats) -> tuple[Floats, Floats]:
        """Return what moving weight from source to target takes away: of violation, and of unevenness, points."""
        board, frame, band = self.board, self.board.frame, self.band
        a, b = board.raw[source], board.raw[target]
        before = band.outside(frame, source, a) + band.outside(frame, target, b)
        after = band.outside(frame, source, a - weight) + band.outside(frame, target, b + weight)
        c_a, c_b = frame.capacity[source], frame.capacity[target]
        even = (
            2 * weight * (a / c_a - b / c_b) / self._load_scale
            - weight * weight * (1 / c_a + 1 / c_b) / self._load_scale
        )
        return before - after, even

    def _score(self, gain: Floats, even: Floats, price: Floats, allowed: np.ndarray) -> Floats:
        effort = np.maximum(price / self._unit, 0.0) + FREE_MOVE
        found: Floats = np.where(allowed, (gain + EVENNESS * even) / effort, -np.inf)
        return found


def bring(board: Board, d: float, budget: float, rng: np.random.Generator, retries: int) -> tuple[Board, bool]:
    """Bring a board within a load distance of the mean, as near as it gets.

    Args:
        board: Where to begin; it is changed.
        d: The load distance, points.
        budget: What its moves may cost together.
        rng: Draws which moves are taken back at a dead end.
        retries: How often that is done at most, >= 0.

    Returns:
        The best board seen, and whether it is inside.
    """
    search = Search(board, Band.around(board, d), budget)
    best, least = board.node.copy(), np.inf
    for attempt in range(retries + 1):
        inside = search.descend()
        total = float(search.violation().sum())
        if total < least - LEAST_GAIN:
            best, least = board.node.copy(), total
        elif total > least * (1 + SLACK):
            _restore(board, best)
        if inside:
            return board, True
        if attempt < retries:
            _take_back(search, rng)
    _restore(board, best)
    return board, False


def _restore(board: Board, node: Ints) -> None:
    for group in np.flatnonzero(board.node != node):
        board.move(int(group), int(node[group]))


def _take_back(search: Search, rng: np.random.Generator) -> None:
    """Send some moved groups home: of the worst node, and of others by luck."""
    board, frame = search.board, search.board.frame
    moved = np.flatnonzero((board.node != frame.home) & (frame.home >= 0) & ~frame.fixed)
    moved = moved[frame.kept[frame.home[moved]]]
    if not len(moved):
        return
    worst = int(search.violation().argmax())
    near = moved[(board.node[moved] == worst) | (frame.home[moved] == worst)]
    picked = rng.choice(moved, min(TAKEN_BACK - 1, len(moved)), replace=False)
    if len(near):
        picked = np.append(picked, rng.choice(near))
    for group in np.unique(picked):
        if board.fits(np.array(group), frame.home[group]):
            board.move(int(group), int(frame.home[group]))
