"""A sharper bound for small problems: only sums of existing groups count.

:mod:`balance_bound` assumes that all sums between the least and the greatest exist. But a node 20 above the mean with
groups of 4.2 and of 2.5 cannot give five of them and land within 0.2 of the mean: five heavy ones are 21, four and a
light one 19.3. It has to give or get one more, and that decides which d the budget allows.

Symbols:
    O_i(p)    sums of p groups of node i, as a set of bits, one for each multiple of :data:`GRID`
    I(q)      sums of q groups of any nodes
    delta_i   least deviation of node i after it gives p and gets q: min |raw_i - s + t - c_i mean| / c_i over s, t in
              O_i(p), I(q)

A d needs (p_i, q_i) with delta_i(p_i, q_i) <= d for every kept node, whose sums of p and of q are within the budget in
moves. These pairs are computed exactly for :data:`WINDOW` values from the least pair of the coarse bound on; beyond,
the best case of the coarse bound is assumed possible. The cheapest choice is found node by node (dynamic programming:
the least sum of q for each sum of p).

Sums are rounded to the grid, and each delta is lowered by the possible rounding error.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from millrace.optimizers.arrays import Floats, Ints

GRID = 0.002
"""Least points between two sums that are distinguished."""
MOST_STEPS = 150_000
"""Grid steps up to the greatest sum; the grid is coarser for loads that are greater than usual."""
WINDOW = 3
"""Numbers of groups that are considered from the least on, in each direction."""


class SubsetSums:
    """Possible sums of groups of single nodes, and of all nodes."""

    def __init__(self, loads: Sequence[Floats], need: Floats, capacity: Floats, outs: Ints, ins: int) -> None:
        """Compute the sums.

        Args:
            loads: Loads of the groups of each node that may move, raw points.
            need: Load of each node above its mean load, raw points, shape (N,).
            capacity: c, shape (N,).
            outs: Most groups that each node gives, shape (N,).
            ins: Most groups that a node gets.
        """
        self._need, self._capacity = need, capacity
        # sums that leave a node farther from the mean than any node is now are useless
        farthest = float((np.abs(need) / capacity).max() * capacity.max())
        heaviest = max((float(x.sum()) for x in loads), default=0.0)
        greatest = heaviest + 3 * farthest
        self._grid = max(GRID, greatest / MOST_STEPS)
        self._width = int(np.ceil(greatest / self._grid)) + 2
        self._outs = [_reachable(x / self._grid, int(n), self._width) for x, n in zip(loads, outs, strict=True)]
        self._ins = _reachable(np.concatenate([*loads, np.zeros(0)]) / self._grid, ins, self._width)
        self._near: dict[int, Ints] = {}
        self._delta: dict[tuple[int, int, int], float] = {}

    def options(self, node: int, p: int, q: int, d: float) -> list[tuple[int, int]]:
        """Return the pairs from the least on that bring a node within d, and those beyond the window that might."""
        if p == q == 0:
            return [(0, 0)]
        near = [(p + i, q + j) for i in range(WINDOW) for j in range(WINDOW)]
        return [*(pair for pair in near if self.delta(node, *pair) <= d), (p + WINDOW, q), (p, q + WINDOW)]

    def delta(self, node: int, p: int, q: int) -> float:
        """Return the least deviation of a node that gives p and gets q, points; infinite if that is impossible."""
        key = node, p, q
        if key not in self._delta:
            self._delta[key] = self._least(node, p, q)
        return self._delta[key]

    def _least(self, node: int, p: int, q: int) -> float:
        outs = self._outs[node]
        if p >= len(outs) or q >= len(self._ins) or not outs[p] or not self._ins[q]:
            return np.inf
        if q not in self._near:
            self._near[q] = _distances(self._ins[q], self._width)
        given = np.flatnonzero(_bits(outs[p], self._width))
        # wanted: t = s - need
        wanted = given - round(self._need[node] / self._grid)
        inside = np.clip(wanted, 0, self._width - 1)
        steps = float((self._near[q][inside] + np.abs(wanted - inside)).min())
        rounding = (p + q + 2) / 2
        return max(0.0, steps - rounding) * self._grid / float(self._capacity[node])


def affordable(options: Sequence[Sequence[tuple[int, int]]], outs: int, ins: int) -> bool:
    """Return whether one pair per node is possible within the given outs and ins.

    Args:
        options: Pairs (p, q) of each node.
        outs: Limit of the sum of all p.
        ins: Limit of the sum of all q.
    """
    never = ins + 1
    least = np.full(outs + 1, never)  # by outs used: ins used
    least[0] = 0
    for pairs in options:
        after = np.full(outs + 1, never)
        for p, q in pairs:
            if p <= outs:
                after[p:] = np.minimum(after[p:], least[: outs + 1 - p] + q)
        least = np.minimum(after, never)
        if (least == never).all():
            return False
    return bool((least <= ins).any())


def _reachable(steps: Floats, most: int, width: int) -> list[int]:
    """Return the sums of 0, 1, ... groups, given in steps of the grid, a set of bits each."""
    mask = (1 << width) - 1
    sums = [1] + [0] * most
    for step in np.round(steps).astype(int).tolist():
        for count in range(most, 0, -1):
            if sums[count - 1]:
                sums[count] |= (sums[count - 1] << step) & mask
    return sums


def _bits(sums: int, width: int) -> np.ndarray:
    raw = sums.to_bytes(width // 8 + 1, "little")
    return np.unpackbits(np.frombuffer(raw, dtype=np.uint8), bitorder="little")[:width]


def _distances(sums: int, width: int) -> Ints:
    """Return the distance of each position from the nearest sum, grid steps, shape (width,)."""
    at = np.flatnonzero(_bits(sums, width))
    positions = np.arange(width)
    right = np.searchsorted(at, positions)
    after = at[np.minimum(right, len(at) - 1)]
    before = at[np.maximum(right - 1, 0)]
    return np.asarray(np.minimum(np.abs(after - positions), np.abs(positions - before)))
