"""Streams that rise when another falls: placed as one, they take less than apart.

Two streams save the share 1 - peak(i + j) / (peak(i) + peak(j)) of their peaks over the horizon. Pairs are taken from
the greatest saving down, each stream once. Equal opposites save the most, as their sum is constant: nodes of such pairs
are never overloaded, whatever the periods of the pairs.

Reference: ours.
"""

from __future__ import annotations

import numpy as np

from optimizers.drfm.problem import Floats, Ints

BLOCK = 64
"""Streams whose sums with all others are made at once."""
NEAREST = 8
"""Best partners of a stream that are considered."""


def pair(mean: Floats, least: float) -> Ints:
    """Return the unit of each stream, 0..U-1, shape (S,): the same for two that are a pair.

    Args:
        mean: Expected rates, shape (S, H).
        least: Share of their peaks that a pair has to save, (0, 1].
    """
    streams = len(mean)
    alone: Ints = np.arange(streams)
    if streams < 2 or least >= 1:
        return alone
    first, second, saved = _candidates(mean, least)
    unit = np.full(streams, -1, dtype=np.intp)
    for at in np.lexsort((second, first, -saved)):
        i, j = first[at], second[at]
        if unit[i] < 0 and unit[j] < 0:
            unit[i] = unit[j] = i
    unit = np.where(unit < 0, alone, unit)
    return np.asarray(np.unique(unit, return_inverse=True)[1], dtype=np.intp).reshape(streams)


def _candidates(mean: Floats, least: float) -> tuple[Ints, Ints, Floats]:
    peak, streams = mean.max(axis=1), len(mean)
    keep = min(NEAREST, streams - 1)
    found = []
    for begin in range(0, streams, BLOCK):
        rows = np.arange(begin, min(begin + BLOCK, streams))
        together = np.stack([(mean[i] + mean).max(axis=1) for i in rows])
        apart = peak[rows][:, None] + peak
        saved = np.where(apart > 0, 1 - together / np.where(apart > 0, apart, 1.0), 0.0)
        saved[np.arange(len(rows)), rows] = -1.0
        best = np.argsort(-saved, axis=1, kind="stable")[:, :keep]
        found.append((np.repeat(rows, keep), best.ravel(), np.take_along_axis(saved, best, axis=1).ravel()))
    first, second, saved = (np.concatenate(column) for column in zip(*found, strict=True))
    good = saved >= least
    return first[good], second[good], saved[good]
