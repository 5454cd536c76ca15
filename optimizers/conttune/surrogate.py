"""The model of PA(p): a power law with a Gaussian process around it, in log space, and the curve to decide on.

Symbols: x = log p, y = log PA.
    y(x) = a + e x + g(x) + h(p) + noise
    a      flat prior;  e ~ N(exponent, exponent_sd^2);  g  smooth wiggle (RBF), sd s_g, length l in log p
    h(p)   peculiarity of a level, sd s_h: observed levels keep theirs, others may have any; s_h is learned from how
           far levels are off the line through their neighbours

The slope's prior is an anchor: one point far beyond the data at the prior's extrapolation, as uncertain as the
exponent. ``./millrace bench conttune`` prints the leave-one-out error on a published table next to the authors' GP.

On the curve over all allowed levels, mean and bounds are running maxima over p (more slots never process less), and
beyond the highest observed level p_h the mean is at most PA(p_h) p / p_h (no operator scales better than linearly).

Reference:
    [ContTune] Section 5.1 uses a GP with an RBF kernel on raw values; deviation and reason as above.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from millrace.optimizers.arrays import Floats
from millrace.optimizers.conttune.observed_levels import Level
from millrace.optimizers.conttune.options import FlowOptions

Training = Mapping[str, Sequence[float]]

JITTER = 1e-8
ANCHOR_DISTANCE = 3.5
"""Distance of the anchor beyond the data in log p: 33 times the highest level, far from the wiggle's reach."""
WIGGLE_SD, WIGGLE_LENGTH = 0.03, 1.0
"""s_g and l: bends from contention and coherence that a power law does not have (Gunther's law)."""
LEVEL_SD, LEVEL_LENGTH = 0.015, 1e-3
"""Least s_h: levels in the published tables are 1 to 2 % off any smooth curve; the length separates neighbours."""
LEAST_TRIPLES, PRIOR_TRIPLES = 5, 5
"""Fewest triples of neighbouring levels that determine s_h, and the weight of ``LEVEL_SD`` against them."""
NEAR = 1.4
"""Reach of a triple in log p, a factor of 4: within it a smooth curve is nearly straight."""
NORMAL = 0.6745
"""Median of the absolute values of normal ones, over their standard deviation."""
WIDEST = 50.0
"""Distance of a bound from the mean, in log PA, beyond which it says no more: nothing is known of such a level."""


@dataclass(frozen=True)
class Surrogate:
    """A fitted model of PA(p).

    Attributes:
        regressor: scikit-optimize's Gaussian process over x, fitted on y.
    """

    regressor: Any

    def predict(self, parallelism: ArrayLike) -> tuple[Floats, Floats]:
        """Return the mean of PA in rows per second, and the standard deviation of log PA, without noise.

        Args:
            parallelism: p, shape (n,), >= 1.

        Returns:
            Two arrays of shape (n,).
        """
        x = np.log(np.asarray(parallelism, dtype=float)).reshape(-1, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "variances smaller than 0": rounding at observed levels
            mean, std = self.regressor.predict(x, return_std=True)
        return np.exp(mean), np.asarray(std)


def fit(training: Training, options: FlowOptions | None = None) -> Surrogate:
    """Fit the surrogate.

    Args:
        training: Training ``parallelism`` (>= 1), ``throughput`` (> 0, rows per second) and optionally
            ``noise`` (standard error, rows per second), of equal length >= 1: a Proposal's ``training``.
        options: ``exponent`` and ``exponent_sd``.
    """
    x, y, errors = _points(training, options or FlowOptions())
    return Surrogate(_fitted(_process(x, y, errors), x.reshape(-1, 1), y))


def estimator(training: Training, options: FlowOptions | None = None) -> Any:
    """Return the same model as a scikit-learn estimator from p, shape (n, 1), to rows per second, (n,)."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    x, y, errors = _points(training, options or FlowOptions())
    logs = make_pipeline(FunctionTransformer(np.log), _process(x, y, errors))
    model = TransformedTargetRegressor(logs, func=np.log, inverse_func=np.exp, check_inverse=False)
    return _fitted(model, np.exp(x).reshape(-1, 1), np.exp(y))


@dataclass(frozen=True)
class Curve:
    """PA over p = 1..n, arrays of shape (n,), rows per second; ``low`` <= ``mean`` <= ``high``.

    Attributes:
        parallelism: 1..n.
        mean: mu(p).
        std: Standard deviation of log PA(p).
        low: Lower bound: what p surely processes, given how certain the need is.
        high: Upper bound.
    """

    parallelism: NDArray[np.int_]
    mean: Floats
    std: Floats
    low: Floats
    high: Floats

    def at(self, parallelism: int) -> float:
        """Return mu(p); p beyond the curve counts as its end."""
        return float(self.mean[min(parallelism, len(self.mean)) - 1])

    def sure_at(self, parallelism: int) -> float:
        """Return the lower bound of PA(p); p beyond the curve counts as its end."""
        return float(self.low[min(parallelism, len(self.low)) - 1])

    def least(self, required: Floats) -> int | None:
        """Return the smallest p whose lower bound is enough; None if there is none.

        Args:
            required: PA that makes each p feasible, shape (n,), rows per second.
        """
        sure = np.flatnonzero(self.low >= required)
        return int(self.parallelism[sure[0]]) if sure.size else None

    def columns(self) -> Mapping[str, tuple[float, ...]]:
        """Return the columns of a Proposal's ``curve``."""
        names = ("parallelism", "mean", "low", "high")
        return {name: tuple(float(v) for v in getattr(self, name)) for name in names}


def draw_curve(
    surrogate: Surrogate, levels: Sequence[Level], p_max: int, confidence: float, variance: float = 0.0
) -> Curve:
    """Return the curve over 1..p_max.

    Args:
        surrogate: Fitted on ``levels``.
        levels: Observed ones by rising p, at least one.
        p_max: Highest level, >= 1.
        confidence: Standard deviations between the mean and either bound, >= 0.
        variance: Relative variance of the requirement, which the bounds have to cover too.
    """
    parallelism = np.arange(1, p_max + 1)
    mean, std = surrogate.predict(parallelism)
    top = levels[-1]
    beyond = parallelism > top.parallelism
    mean = np.where(beyond, np.minimum(mean, top.ability * parallelism / top.parallelism), mean)
    width = np.exp(np.minimum(confidence * np.sqrt(std**2 + variance), WIDEST))
    mean, low, high = (np.maximum.accumulate(values) for values in (mean, mean / width, mean * width))
    return Curve(parallelism, mean, std, low, high)


def _points(training: Training, options: FlowOptions) -> tuple[Floats, Floats, Floats]:
    """Return x, y and the variances of y, the anchor included."""
    p, ability = (np.asarray(training[name], dtype=float) for name in ("parallelism", "throughput"))
    noise = np.asarray(training.get("noise", np.zeros_like(p)), dtype=float)
    x, y = np.log(p), np.log(ability)
    anchor = x.max() + ANCHOR_DISTANCE
    reach = anchor - x.mean()
    errors = np.append((noise / ability) ** 2, (options.exponent_sd * reach) ** 2)
    return np.append(x, anchor), np.append(y, y.mean() + options.exponent * reach), errors


def level_sd(x: Floats, y: Floats, errors: Floats) -> float:
    """Return s_h: how far levels are off the line through their neighbours, without noise.

    It is a median: a curve that bends once, as at a plateau, does not affect it, and neither does one odd level.

    Args:
        x: log p of the levels, shape (n,).
        y: log PA, shape (n,).
        errors: Variances of y, shape (n,).
    """
    x, once = np.unique(x, return_index=True)
    y, errors = y[once], errors[once]
    near = x[2:] - x[:-2] <= NEAR
    if near.sum() < LEAST_TRIPLES:
        return LEVEL_SD
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    parts = np.array([np.ones_like(share), 1 - share, share])  # of the level itself and its neighbours
    weight = (parts**2).sum(axis=0)
    gap = y[1:-1] - parts[1] * y[:-2] - parts[2] * y[2:]
    noise = (parts**2 * [errors[1:-1], errors[:-2], errors[2:]]).sum(axis=0)
    seen = float(np.median((np.abs(gap) / np.sqrt(weight))[near])) / NORMAL
    own = max(0.0, seen**2 - float(np.median((noise / weight)[near])))
    pooled = (near.sum() * own + PRIOR_TRIPLES * LEVEL_SD**2) / (near.sum() + PRIOR_TRIPLES)
    return max(LEVEL_SD, float(np.sqrt(pooled)))


def _process(x: Floats, y: Floats, errors: Floats) -> Any:
    from skopt.learning import GaussianProcessRegressor

    of_level = level_sd(x[:-1], y[:-1], errors[:-1])  # the last point is the anchor
    return GaussianProcessRegressor(_kernel(of_level), alpha=errors + JITTER, optimizer=None, random_state=0)


def _fitted(model: Any, x: Floats, y: Floats) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(x, y)


def _kernel(of_level: float) -> Any:
    """Return the kernel for this s_h; its other numbers are fixed, because a few levels cannot determine them."""
    from skopt.learning.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

    line = ConstantKernel(100.0, "fixed") * DotProduct(1.0, "fixed")
    wiggle = ConstantKernel(WIGGLE_SD**2, "fixed") * RBF(WIGGLE_LENGTH, "fixed")
    level = ConstantKernel(of_level**2, "fixed") * RBF(LEVEL_LENGTH, "fixed")
    return line + wiggle + level
