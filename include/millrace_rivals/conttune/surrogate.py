"""The surrogate of PA(p): a Gaussian process by scikit-optimize ([ContTune], Section 5.1, Eq. 3).

Two kinds:

``rbf``, the authors': zero mean, k(p, p') = sf^2 exp(-(p - p')^2 / 2 l^2), sf and l by maximum likelihood within
    scikit-learn's default bounds, jitter 1e-8, no noise term, raw values.

``rbf_white``: the same kernel on normalised values, with a noise term.

The kernel is passed explicitly because the regressor's own default kernel is fixed.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from millrace.optimizers.arrays import Floats

JITTER = 1e-8
"""The authors' value; without noise it only keeps the matrix invertible."""
CONFIDENCE = 0.9
"""One-sided level of each of the band's bounds; only pictures show it."""


@dataclass(frozen=True)
class PaperCurve:
    """PA over p = 1..n, arrays of shape (n,), rows per second.

    Attributes:
        mean: mu(p).
        std: sigma(p), >= 0.
    """

    mean: Floats
    std: Floats

    def columns(self) -> Mapping[str, tuple[float, ...]]:
        """Return the columns of a Proposal's ``curve``: ``parallelism``, ``mean``, ``low``, ``high``."""
        width = float(ndtri(CONFIDENCE)) * self.std
        columns = {"mean": self.mean, "low": self.mean - width, "high": self.mean + width}
        levels = tuple(float(p) for p in range(1, len(self.mean) + 1))
        return {"parallelism": levels, **{name: tuple(map(float, values)) for name, values in columns.items()}}


def fit_curve(training: Mapping[str, Sequence[float]], kind: str, p_max: int) -> PaperCurve | None:
    """Return the surrogate over 1..p_max; None if the observations cannot be fitted.

    Args:
        training: As for :func:`fit`.
        kind: ``rbf`` or ``rbf_white``.
        p_max: Highest level, >= 1.
    """
    p = np.arange(1, p_max + 1, dtype=float).reshape(-1, 1)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # "variances smaller than 0": rounding at observed levels
        try:
            mean, std = fit(training, kind).predict(p, return_std=True)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            return None
    if not (np.isfinite(mean).all() and np.isfinite(std).all()):
        return None
    return PaperCurve(np.asarray(mean), np.maximum(np.asarray(std), 0.0))


def fit(training: Mapping[str, Sequence[float]], kind: str) -> Any:
    """Return the fitted scikit-learn estimator: ``predict`` takes p, shape (n, 1), and returns rows per second, (n,).

    Args:
        training: Columns ``parallelism`` (>= 1) and ``throughput`` (> 0, rows per second), of equal length
            >= 1: a Proposal's ``training``.
        kind: ``rbf`` or ``rbf_white``.
    """
    from skopt.learning import GaussianProcessRegressor
    from skopt.learning.gaussian_process.kernels import RBF, ConstantKernel

    noise: dict[str, Any] = {"noise": "gaussian", "normalize_y": True} if kind == "rbf_white" else {}
    regressor = GaussianProcessRegressor(ConstantKernel(1.0) * RBF(1.0), alpha=JITTER, random_state=0, **noise)
    p = np.asarray(training["parallelism"], dtype=float).reshape(-1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the authors' amplitude sticks at its bound
        return regressor.fit(p, np.asarray(training["throughput"], dtype=float))
