"""What is known of PA(p): a power law with a Gaussian process around it, in log space.

Symbols: x = log p, y = log PA.
    y(x) = a + e x + g(x) + h(p) + noise
    a      flat prior;  e ~ N(exponent, exponent_sd^2);  g  smooth wiggle (RBF), sd s_g, length l in log p
    h(p)   what is peculiar to a level, sd s_h: levels that were observed keep theirs, others may have any

The slope's prior is an anchor: one point far beyond the data at the prior's extrapolation, as uncertain as the
exponent. ``./millrace bench conttune`` prints the leave-one-out error on a published table beside the authors' GP.

Reference:
    [ContTune] Section 5.1 takes a GP with an RBF kernel on raw values; deviation and reason as above.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimizers.conttune.flow.options import Options

Array = NDArray[np.float64]
Columns = Mapping[str, Sequence[float]]

JITTER = 1e-8
ANCHOR_DISTANCE = 3.5
"""Distance of the anchor beyond the data in log p: 33 times the highest level, far from the wiggle's reach."""
WIGGLE_SD, WIGGLE_LENGTH = 0.03, 1.0
"""s_g and l: bends that a power law has not, as contention and coherence cost them (Gunther's law)."""
LEVEL_SD, LEVEL_LENGTH = 0.015, 1e-3
"""s_h: levels of the published tables lie 1 to 2 % off any smooth curve; the length tells neighbours apart."""


@dataclass(frozen=True)
class Surrogate:
    """A fitted model of PA(p).

    Attributes:
        regressor: scikit-optimize's Gaussian process over x, fitted on y.
    """

    regressor: Any

    def predict(self, parallelism: ArrayLike) -> tuple[Array, Array]:
        """Return mean of PA in rows a second, and the standard deviation of log PA, without noise.

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


def fit(training: Columns, options: Options | None = None) -> Surrogate:
    """Fit the surrogate.

    Args:
        training: Columns ``parallelism`` (>= 1), ``processing_ability`` (> 0, rows a second) and optionally ``noise``
            (standard error, rows a second), of equal length >= 1: a Proposal's ``training``.
        options: ``exponent`` and ``exponent_sd``.
    """
    x, y, errors = _points(training, options or Options())
    return Surrogate(_fitted(_process(errors), x.reshape(-1, 1), y))


def estimator(training: Columns, options: Options | None = None) -> Any:
    """Return the same model as a scikit-learn estimator from p, shape (n, 1), to rows a second, (n,)."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    x, y, errors = _points(training, options or Options())
    logs = make_pipeline(FunctionTransformer(np.log), _process(errors))
    model = TransformedTargetRegressor(logs, func=np.log, inverse_func=np.exp, check_inverse=False)
    return _fitted(model, np.exp(x).reshape(-1, 1), np.exp(y))


def _points(training: Columns, options: Options) -> tuple[Array, Array, Array]:
    """Return x, y and the variances of y, the anchor included."""
    p, ability = (np.asarray(training[name], dtype=float) for name in ("parallelism", "processing_ability"))
    noise = np.asarray(training.get("noise", np.zeros_like(p)), dtype=float)
    x, y = np.log(p), np.log(ability)
    anchor = x.max() + ANCHOR_DISTANCE
    reach = anchor - x.mean()
    errors = np.append((noise / ability) ** 2, (options.exponent_sd * reach) ** 2)
    return np.append(x, anchor), np.append(y, y.mean() + options.exponent * reach), errors


def _process(errors: Array) -> Any:
    from skopt.learning import GaussianProcessRegressor

    return GaussianProcessRegressor(_kernel(), alpha=errors + JITTER, optimizer=None, random_state=0)


def _fitted(model: Any, x: Array, y: Array) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(x, y)


def _kernel() -> Any:
    """Return the kernel; its numbers are fixed, for the few levels of an operator cannot tell them apart."""
    from skopt.learning.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

    line = ConstantKernel(100.0, "fixed") * DotProduct(1.0, "fixed")
    wiggle = ConstantKernel(WIGGLE_SD**2, "fixed") * RBF(WIGGLE_LENGTH, "fixed")
    level = ConstantKernel(LEVEL_SD**2, "fixed") * RBF(LEVEL_LENGTH, "fixed")
    return line + wiggle + level
