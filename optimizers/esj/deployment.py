"""How many workers keep a window at the utilisation that is aimed at.

Symbols:
    E(w)   expected rate of the streams together, tuples a second
    phi    how long tuples stay in the window, seconds
    W      tuples that a worker can keep
    tau1   utilisation that is aimed at

    M = ceil(E(w) phi / (W tau1))      (2)

Reference: [ESJ-A] "Initial deployment", Equation 2. The paper has the rate of one stream; the window of a join holds
the tuples of all its streams, so theirs are added up.
"""

from __future__ import annotations

import math
from fractions import Fraction

from optimizers.ranges import JOIN, NOT_NEGATIVE, POSITIVE, SHARE, check

SECTION = "join"


def initial_workers(rate: float, window_s: float, capacity: int, target: float) -> int:
    """Return M, the workers that a join begins with, >= 1.

    Args:
        rate: E(w), tuples a second of event time, >= 0.
        window_s: phi, seconds of event time, >= 0.
        capacity: W, >= 1.
        target: tau1, (0, 1].

    Raises:
        MillraceError: If a value is out of range.
    """
    check("expected_rows_per_s", rate, NOT_NEGATIVE, SECTION)
    check("window_s", window_s, NOT_NEGATIVE, SECTION)
    return _workers(_exact(rate) * _exact(window_s), capacity, target)


def workers_for(tuples: float, capacity: int, target: float) -> int:
    """Return the fewest workers that keep so many tuples at the target or below, >= 1.

    Args:
        tuples: Of the whole window, >= 0.
        capacity: W, >= 1.
        target: tau1, (0, 1].

    Raises:
        MillraceError: If a value is out of range.
    """
    check("tuples", tuples, NOT_NEGATIVE, SECTION)
    return _workers(_exact(tuples), capacity, target)


def _workers(tuples: Fraction, capacity: int, target: float) -> int:
    check("capacity", capacity, POSITIVE, SECTION)
    check("tau1", target, SHARE, JOIN)
    return max(1, math.ceil(tuples / (_exact(capacity) * _exact(target))))


def _exact(value: float) -> Fraction:
    """Return a number as a person writes it: 0.3 is three tenths, not the nearest binary fraction."""
    return Fraction(str(value))
