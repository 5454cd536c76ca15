"""What passes a job whose operators cannot process everything: backpressure, source by source.

All sources advance together, each in proportion to its weight (its arrival rate), until one has emitted all it has or
an operator is full; then the sources that feed it stop there, and the others go on. So an overloaded operator throttles
exactly the sources that feed it, nobody is starved by another's backlog, and no source could emit more without another
emitting less (max-min fairness).
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def passing(
    gains: Sequence[Sequence[float]],
    capacities: Sequence[float],
    arrivals: Sequence[float],
    waiting: Sequence[bool],
    weights: Sequence[float],
) -> tuple[tuple[float, ...], tuple[bool, ...]]:
    """Return what each source emits, rows a second, and which operators hold a source back.

    Args:
        gains: Rows at each operator for a row emitted by each source, shape (operators, sources).
        capacities: What each operator can process, rows a second, shape (operators,).
        arrivals: What arrives at each source, rows a second, shape (sources,).
        waiting: Whether rows wait at the source: it then emits whatever passes. Without, no more than arrives.
        weights: How sources share a full operator, > 0.
    """
    emitted = [0.0] * len(arrivals)
    open_ = [s for s in range(len(arrivals)) if waiting[s] or arrivals[s] > 0]
    full = [False] * len(capacities)
    left = list(capacities)
    while open_:
        level, at = math.inf, -1
        for i, gain in enumerate(gains):
            load = sum([gain[s] * weights[s] for s in open_])
            if load > 0 and left[i] < level * load:
                level, at = max(0.0, left[i]) / load, i
        done = [s for s in open_ if not waiting[s] and arrivals[s] <= level * weights[s] * (1 + ROUNDING)]
        if done:
            closed = done  # all of them together stay below the level at which anything is full
            for s in closed:
                emitted[s] = arrivals[s]
        else:
            full[at] = True
            closed = [s for s in open_ if gains[at][s] > 0]
            for s in closed:
                emitted[s] = level * weights[s]
        for i, gain in enumerate(gains):
            left[i] -= sum([gain[s] * emitted[s] for s in closed])
        open_ = [s for s in open_ if s not in closed]
    return tuple(emitted), tuple(full)


ROUNDING = 1e-9
