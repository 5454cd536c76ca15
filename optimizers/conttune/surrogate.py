"""The surrogate of PA(p): a Gaussian process by scikit-optimize ([ContTune], Section 5.1, Eq. 3).

Two kinds:

``rbf``, the authors': zero mean, k(p, p') = sf^2 exp(-(p - p')^2 / 2 l^2), sf and l by maximum likelihood within
    scikit-learn's default bounds, jitter 1e-8, no noise term, raw values.

``power_law``, the corrected one, on logarithms x = log p, y = log PA:
    y = b + e x + r(x) + noise,  b ~ N(0, 10^2),  e ~ N(exponent, exponent_sd^2),  r ~ GP(0, RBF)
    A zero-mean GP on raw values falls to 0 beside its data; parallel systems follow a power law closely.

The prior of e is one more point far beyond the data ("anchor"), as a GP of the library has no mean that rises: from the
data's centre (x_c, y_c) it lies at y_c + exponent (x_a - x_c) with the standard error exponent_sd (x_a - x_c), which
for the linear part is that prior exactly. So the estimator is made of the libraries' types alone, and can be stored
and loaded anywhere. The kernels are given whole because the regressor's own default kernel is fixed.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimizers.conttune.options import Options

Array = NDArray[np.float64]

JITTER = 1e-8
"""The authors' value; without noise it only keeps the matrix invertible."""
ANCHOR_DISTANCE = 3.5
"""Distance of the anchor beyond the data in log p: 33 times the highest level, far from the residual's reach."""
FREE_LEVELS = 6
"""Levels from which residual and noise are fitted, twice their number: with fewer, the likelihood overfits."""
RESIDUAL_SD, RESIDUAL_BOUNDS = 0.03, (0.015, 0.06)
"""Wiggle of log PA around its power law, as seen on the published tables."""
LENGTH, LENGTH_BOUNDS = 1.0, (0.3, 3.0)
"""Length scale of that wiggle in log p."""
NOISE_SD, NOISE_BOUNDS = 0.02, (0.005, 0.1)
"""Repeats of log PA scatter by 1 to 2 % on the published tables; what an observation itself tells is added."""


@dataclass(frozen=True)
class Surrogate:
    """A fitted model of PA(p).

    Attributes:
        estimator: A scikit-learn estimator; ``predict`` takes p of shape (n, 1) and returns rows a second, (n,).
        log: True if the Gaussian process inside it works on logarithms.
    """

    estimator: Any
    log: bool

    def predict(self, parallelism: ArrayLike) -> tuple[Array, Array]:
        """Return mean and standard deviation (without noise) of PA in rows a second.

        Args:
            parallelism: p, shape (n,), >= 1.

        Returns:
            Two arrays of shape (n,).
        """
        p = np.asarray(parallelism, dtype=float).reshape(-1, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "variances smaller than 0": rounding at observed levels
            if not self.log:
                mean, std = self.estimator.predict(p, return_std=True)
                return np.asarray(mean), np.asarray(std)
            log_mean, log_std = self.estimator.regressor_.predict(p, return_std=True)
        mean = np.exp(log_mean)
        return mean, mean * log_std


def fit(history: Mapping[str, Sequence[float]], options: Options | None = None) -> Surrogate:
    """Fit the surrogate that the options name.

    Args:
        history: Columns ``parallelism`` (>= 1) and ``processing_ability`` (> 0, rows a second), and optionally
            ``noise`` (standard error, rows a second), of equal length >= 1: a Proposal's ``training``.
        options: Defaults to the corrected preset.
    """
    options = options or Options()
    p = np.asarray(history["parallelism"], dtype=float)
    ability = np.asarray(history["processing_ability"], dtype=float)
    noise = np.asarray(history.get("noise", np.zeros_like(p)), dtype=float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hyperparameters at their bounds are expected, see RESIDUAL_BOUNDS
        if options.surrogate == "rbf":
            return Surrogate(_rbf(p, ability), log=False)
        return Surrogate(_power_law(p, ability, noise, options), log=True)


def _rbf(p: Array, ability: Array) -> Any:
    from skopt.learning import GaussianProcessRegressor
    from skopt.learning.gaussian_process.kernels import RBF, ConstantKernel

    regressor = GaussianProcessRegressor(ConstantKernel(1.0) * RBF(1.0), alpha=JITTER, random_state=0)
    return regressor.fit(p.reshape(-1, 1), ability)


def _power_law(p: Array, ability: Array, noise: Array, options: Options) -> Any:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer
    from skopt.learning import GaussianProcessRegressor

    x, y = np.log(p), np.log(ability)
    anchor = x.max() + ANCHOR_DISTANCE
    reach = anchor - x.mean()
    error = np.append((noise / ability) ** 2, (options.exponent_sd * reach) ** 2)
    regressor = GaussianProcessRegressor(
        _kernel(fixed=len(np.unique(p)) < FREE_LEVELS), alpha=error + JITTER, noise="gaussian", random_state=0
    )
    model = TransformedTargetRegressor(
        make_pipeline(FunctionTransformer(np.log), regressor), func=np.log, inverse_func=np.exp, check_inverse=False
    )
    points = np.append(p, np.exp(anchor)).reshape(-1, 1)
    return model.fit(points, np.append(ability, np.exp(y.mean() + options.exponent * reach)))


def _kernel(*, fixed: bool) -> Any:
    from skopt.learning.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

    def squared(bounds: tuple[float, float]) -> Any:
        return "fixed" if fixed else (bounds[0] ** 2, bounds[1] ** 2)

    line = ConstantKernel(100.0, "fixed") * DotProduct(1.0, "fixed")
    residual = ConstantKernel(RESIDUAL_SD**2, squared(RESIDUAL_BOUNDS)) * RBF(
        LENGTH, "fixed" if fixed else LENGTH_BOUNDS
    )
    return line + residual + WhiteKernel(NOISE_SD**2, squared(NOISE_BOUNDS))
