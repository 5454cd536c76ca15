"""What passes through a job whose operators cannot process everything: backpressure by source.

All sources advance together, each in proportion to its weight (its arrival rate), until a source has emitted all its
rows or an operator is full. The sources that feed a full operator then stop, and the others continue. So an overloaded
operator throttles exactly the sources that feed it, and no backlog starves another source. No source could emit more
without another emitting less (max-min fairness).
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
    """Return the output of each source, rows per second, and which operators hold a source back.

    Args:
        gains: Rows at each operator per row emitted by each source, shape (operators, sources).
        capacities: Capacity of each operator, rows per second, shape (operators,).
        arrivals: Arrivals at each source, rows per second, shape (sources,).
        waiting: Whether rows wait at the source: if so, it emits as much as passes, otherwise no more than arrives.
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
            closed = done  # together they stay below the level at which any operator is full
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
