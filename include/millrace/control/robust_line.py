"""Fit a straight line to few, noisy, partly contaminated points, with priors for its two numbers.

Symbols: x (n,) abscissa >= 0, y (n,) > 0, line y = a + b x with a >= 0, b > 0; f (n,) fitted values; r = y / f - 1
relative residuals; s their scale; w (n,) weights in 0..1.

A batch's noise grows with its duration, so residuals are relative. Disturbances only make batches longer, and may be
large. Weights come from Tukey's biweight, which gives gross outliers no weight at all. The fit starts at a weighted
Theil-Sen line, which 29 % of bad points cannot move at will.
Scaling x or y scales the result and changes nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

TUKEY = 4.685
"""Residuals beyond this many scales get no weight; 95 % efficiency under normal noise (Beaton and Tukey, 1974)."""
MAD_TO_SIGMA = 1.4826
SCATTER_PRIOR, SCATTER_PRIOR_POINTS = 0.1, 4
"""Three points on a line by luck do not prove that there is no noise: 10 % scatter counts as four more points."""
SCATTER_FLOOR = 1e-3
"""Smallest scale of residuals for weighting; clocks tick in milliseconds."""
ROUNDS = 30
LEAST_OF_PAST = 9
"""Fewest points for a slope given the past: two for each number to find, and one because the first has no past."""
MOST_CONDITION = 1e10
"""Points that all have one abscissa determine no line; from this condition on, double precision shows it."""


@dataclass(frozen=True)
class Prior:
    """What is already known of a number: its mean and standard error, both >= 0."""

    mean: float
    error: float


@dataclass(frozen=True)
class Line:
    """A fitted line with the standard errors of its two numbers."""

    intercept: float
    slope: float
    intercept_error: float
    slope_error: float


def fit_line(x: Array, y: Array, intercept: Prior | None = None, slope: Prior | None = None) -> Line | None:
    """Return the robust line y = a + b x with a >= 0 and b > 0; None if the points do not determine one.

    Minimises sum_i rho(r_i / s) + ((a - a0) / ea)^2 / 2 + ((b - b0) / eb)^2 / 2 by iteratively reweighted least
    squares, rho Tukey's biweight; a0, ea and b0, eb are the priors.

    Args:
        x: Abscissae, shape (n,), >= 0.
        y: Ordinates, shape (n,), > 0.
        intercept: Prior of a.
        slope: Prior of b.
    """
    if len(x) == 0 or not x.max() > 0:
        return None
    x_unit, y_unit = float(x.max()), float(np.median(y))
    x, y = x / x_unit, y / y_unit
    a0 = _scaled(intercept, 1 / y_unit)
    b0 = _scaled(slope, x_unit / y_unit)
    theta = _start(x, y, a0, b0)
    for _ in range(ROUNDS):
        f = _fitted(theta, x)
        r = y / f - 1
        w, scale = _weigh(r)
        solved = _solve(x, y, w, f, _scatter(r, w, scale), a0, b0)
        if solved is None:
            return None
        before, (theta, cov) = theta, solved
        if np.abs(theta - before).max() <= 1e-9 * np.abs(theta).max():
            break
    a, b = float(theta[0]) * y_unit, float(theta[1]) * y_unit / x_unit
    if not (np.isfinite(a) and np.isfinite(b) and b > 0):
        return None
    errors = np.sqrt(np.clip(np.diag(cov), 0, None))
    return Line(a, b, float(errors[0]) * y_unit, float(errors[1]) * y_unit / x_unit)


def slope_given_past(x: Array, y: Array) -> Prior | None:
    """Return the slope that the new part of each abscissa shows; None if too little is new.

    If y comes back in the next x, as rows that arrive during a batch are read by the next batch, a slow drift of a
    raises both, and the points are on a line of another slope. Given the last point, only the new part of x counts,
    which has no part in the drift: the slope is that of
        y_i = a + b x_i + c y_(i-1) + d x_(i-1) + e_i
    which holds for any drift a + b x + u with u_i = c u_(i-1) + e_i (Durbin, 1960), weighted as in :func:`fit_line`.

    Args:
        x: Abscissae in their order, shape (n,), >= 0.
        y: Ordinates, shape (n,), > 0.
    """
    if len(x) < LEAST_OF_PAST or not x.max() > 0:
        return None
    x_unit, y_unit = float(x.max()), float(np.median(y))
    x, y = x / x_unit, y / y_unit
    columns, target = np.column_stack([np.ones(len(x) - 1), x[1:], y[:-1], x[:-1]]), y[1:]
    w, f = np.ones(len(target)), target
    for _ in range(ROUNDS):
        k = w / f**2
        normal = columns.T @ (k[:, None] * columns)
        inverse = _inverse(normal)
        if inverse is None:
            return None
        cov = inverse
        theta = cov @ columns.T @ (k * target)
        f = np.clip(columns @ theta, 1e-6, None)
        r = target / f - 1
        before, (w, scale) = w, _weigh(r)
        if np.abs(w - before).max() <= 1e-6:
            break
    error = _scatter(r, w, scale) * math.sqrt(max(cov[1, 1], 0.0))
    return Prior(float(theta[1]) * y_unit / x_unit, error * y_unit / x_unit)


def weighted_median(values: Array, weights: Array) -> float:
    """Return the value at which half of the weight is reached."""
    rank = np.argsort(values, kind="stable")
    total = np.cumsum(weights[rank])
    return float(values[rank][np.searchsorted(total, total[-1] / 2)])


def _start(x: Array, y: Array, a0: Prior | None, b0: Prior | None) -> Array:
    """Return the line with the smallest median residual of those that points and priors suggest."""
    slopes = [b0.mean] if b0 else []
    i, j = np.triu_indices(len(x), 1)
    run = np.abs(x[i] - x[j])
    apart = run > 1e-9
    if apart.any():
        rise = (y[i] - y[j])[apart] / (x[i] - x[j])[apart]
        slopes.append(weighted_median(rise, run[apart]))
    if a0:
        slopes.append(float(np.median((y - a0.mean)[x > 0] / x[x > 0])))
    lines = [(max(float(np.median(y - b * x)), 0.0), b) for b in slopes if b > 0] or [(float(np.median(y)), 0.0)]
    return np.array(min(lines, key=lambda t: float(np.median(np.abs(y - t[0] - t[1] * x)))))


def _fitted(theta: Array, x: Array) -> Array:
    return np.asarray(np.clip(theta[0] + theta[1] * x, 1e-6, None))


def _weigh(r: Array) -> tuple[Array, float]:
    """Return Tukey's weights of relative residuals, and their scale."""
    scale = max(MAD_TO_SIGMA * float(np.median(np.abs(r))), SCATTER_FLOOR)
    return np.clip(1 - (r / (TUKEY * scale)) ** 2, 0, None) ** 2, scale


def _inverse(normal: Array) -> Array | None:
    """Return the inverse of a normal matrix; None if the points determine no solution."""
    if not (np.isfinite(normal).all() and normal.diagonal().min() > 0):
        return None
    norm = np.sqrt(normal.diagonal())
    if np.linalg.cond(normal / np.outer(norm, norm)) > MOST_CONDITION:
        return None
    return np.asarray(np.linalg.inv(normal))


def _scatter(r: Array, w: Array, scale: float) -> float:
    """Return the relative standard deviation of a point, never optimistic for few points."""
    n = float((w > 0).sum())
    variance = scale**2 * n / max(n - 2, 1)
    return float(np.sqrt((n * variance + SCATTER_PRIOR_POINTS * SCATTER_PRIOR**2) / (n + SCATTER_PRIOR_POINTS)))


def _solve(
    x: Array, y: Array, w: Array, f: Array, scatter: float, a0: Prior | None, b0: Prior | None
) -> tuple[Array, Array] | None:
    """Return (a, b) and their covariance from the weighted normal equations, with a >= 0."""
    k = w / (f * scatter) ** 2
    normal = np.array([[k.sum(), (k * x).sum()], [(k * x).sum(), (k * x * x).sum()]])
    right = np.array([(k * y).sum(), (k * x * y).sum()])
    for index, prior in enumerate((a0, b0)):
        if prior is not None:
            precision = 1 / max(prior.error, 1e-9) ** 2
            normal[index, index] += precision
            right[index] += precision * prior.mean
    cov = _inverse(normal)
    if cov is None:
        return None
    theta = cov @ right
    if theta[0] >= 0:
        return theta, cov
    b = right[1] / normal[1, 1]
    # keep the errors of the free line: the bound sets the intercept, not how well the slope is known
    return np.array([0.0, b]), cov


def _scaled(prior: Prior | None, factor: float) -> Prior | None:
    return None if prior is None else Prior(prior.mean * factor, prior.error * factor)
