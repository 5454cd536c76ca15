"""The surrogate over all allowed levels, made fit to decide on.

Mean and bounds are running maxima over p (more slots never process less), and beyond the highest observed level p_h the
mean is at most PA(p_h) p / p_h (no operator scales better than linearly).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizers.conttune.flow.surrogate import Surrogate
from optimizers.conttune.history import Level

Array = NDArray[np.float64]

WIDEST = 50.0
"""Distance of a bound from the mean, in log PA, beyond which it says no more: nothing is known of such a level."""


@dataclass(frozen=True)
class Curve:
    """PA over p = 1..n, arrays of shape (n,), rows a second; ``low`` <= ``mean`` <= ``high``.

    Attributes:
        parallelism: 1..n.
        mean: mu(p).
        std: Standard deviation of log PA(p).
        low: Lower bound: what p is sure to process, seen against how surely the need is known.
        high: Upper bound.
    """

    parallelism: NDArray[np.int_]
    mean: Array
    std: Array
    low: Array
    high: Array

    def at(self, parallelism: int) -> float:
        """Return mu(p); p beyond the curve counts as its end."""
        return float(self.mean[min(parallelism, len(self.mean)) - 1])

    def least(self, required: Array) -> int | None:
        """Return the smallest p whose lower bound suffices; None if there is none.

        Args:
            required: PA that makes each p feasible, shape (n,), rows a second.
        """
        sure = np.flatnonzero(self.low >= required)
        return int(self.parallelism[sure[0]]) if sure.size else None

    def columns(self) -> Mapping[str, tuple[float, ...]]:
        """Return the columns of a Proposal's ``curve``."""
        names = ("parallelism", "mean", "low", "high")
        return {name: tuple(float(v) for v in getattr(self, name)) for name in names}


def curve(
    surrogate: Surrogate, observed: Sequence[Level], p_max: int, confidence: float, variance: float = 0.0
) -> Curve:
    """Return the curve over 1..p_max.

    Args:
        surrogate: Fitted on ``observed``.
        observed: Levels by rising p, at least one.
        p_max: Highest level, >= 1.
        confidence: Standard deviations between the mean and either bound, >= 0.
        variance: Relative variance of what is required, which the bounds have to cover too.
    """
    parallelism = np.arange(1, p_max + 1)
    mean, std = surrogate.predict(parallelism)
    top = observed[-1]
    beyond = parallelism > top.parallelism
    mean = np.where(beyond, np.minimum(mean, top.ability * parallelism / top.parallelism), mean)
    width = np.exp(np.minimum(confidence * np.sqrt(std**2 + variance), WIDEST))
    mean, low, high = (np.maximum.accumulate(line) for line in (mean, mean / width, mean * width))
    return Curve(parallelism, mean, std, low, high)
