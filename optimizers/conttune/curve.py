"""The surrogate over all allowed levels, made fit to decide on.

With ``monotone``: mean and bounds are running maxima over p (more slots never process less), and beyond the highest
observed level p_h the mean is at most PA(p_h) p / p_h (no operator scales better than linearly).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from optimizers.conttune.history import Level
from optimizers.conttune.options import Options
from optimizers.conttune.surrogate import Surrogate

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """PA over p = 1..n, arrays of shape (n,), rows a second; ``low`` <= ``mean`` <= ``high``.

    Attributes:
        parallelism: 1..n.
        mean: mu(p).
        std: sigma(p).
        low: Lower bound at the options' confidence.
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

    def columns(self) -> Mapping[str, tuple[float, ...]]:
        """Return the columns of a Proposal's ``curve``."""
        names = ("parallelism", "mean", "low", "high")
        return {name: tuple(float(v) for v in getattr(self, name)) for name in names}


def curve(surrogate: Surrogate, observed: Sequence[Level], p_max: int, options: Options) -> Curve:
    """Return the curve over 1..p_max.

    Args:
        surrogate: Fitted on ``observed``.
        observed: Levels by rising p, at least one.
        p_max: Highest level, >= 1.
        options: ``monotone`` and ``confidence``.
    """
    parallelism = np.arange(1, p_max + 1)
    mean, std = surrogate.predict(parallelism)
    if options.monotone:
        top = observed[-1]
        beyond = parallelism > top.parallelism
        mean = np.where(beyond, np.minimum(mean, top.ability * parallelism / top.parallelism), mean)
    width = float(ndtri(options.confidence)) * std
    low, high = np.maximum(mean - width, 0.0), mean + width
    if options.monotone:
        mean, low, high = (np.maximum.accumulate(line) for line in (mean, low, high))
    return Curve(parallelism, mean, std, low, high)
