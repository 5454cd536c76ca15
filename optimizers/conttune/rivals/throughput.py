"""Dragster's model of an operator's throughput f(p), and its upper confidence bound.

A Gaussian process on f(p) / p, relative to its mean over the measured levels, over log p: RBF, fixed hyperparameters.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESIDUAL_SD, LENGTH, NOISE_SD = 0.1, 1.0, 0.02
"""Of f(p) / p relative to its mean: standard deviation of the process, its length in log p, and of one measurement."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """What is known of one level: mean ability, rows a second, and the looks behind it."""

    ability: float
    looks: int = 1


Points = Mapping[int, Point]
"""By level."""


def bounds_over(points: Points, p_max: int, beta: float) -> tuple[Array, Array] | None:
    """Return mean and upper confidence bound of f over p = 1..p_max, rows a second, shape (p_max,).

    None if the points cannot be told apart from each other or from nothing in floating point.

    Args:
        points: At least one.
        p_max: >= 1.
        beta: Width of the bound.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    levels = np.array(sorted(points), dtype=float)
    ability = np.array([points[int(p)].ability for p in levels])
    noise = np.array([NOISE_SD**2 / points[int(p)].looks for p in levels])
    with np.errstate(all="ignore"):
        unit = float(np.mean(ability / levels))
        relative = ability / levels / unit - 1
    if not np.isfinite(relative).all():
        return None
    kernel = ConstantKernel(RESIDUAL_SD**2, "fixed") * RBF(LENGTH, "fixed")
    process = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None)
    p = np.arange(1, p_max + 1, dtype=float)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        process.fit(np.log(levels).reshape(-1, 1), relative)
        mu, sigma = process.predict(np.log(p).reshape(-1, 1), return_std=True)
        mean, upper = p * unit * (1 + mu), p * unit * (1 + mu + beta * sigma)
        return mean, np.minimum(upper, _ceiling(levels, ability, noise, p, beta))


def _ceiling(levels: Array, ability: Array, noise: Array, p: Array, beta: float) -> Array:
    """Return what no p processes more than: the bound of the nearest level at or above it that was measured."""
    measured = ability * (1 + beta * np.sqrt(noise))
    return np.array([min(measured[levels >= q], default=math.inf) for q in p])


def settled(points: Points, now: int, aim: float, least: int, looks: int | None = None) -> bool:
    """Say whether no model is needed: the present level reaches the aim, and none below is left to try.

    Args:
        points: What was measured.
        now: The present level.
        aim: Capacity aimed at, rows a second.
        least: Lowest allowed level.
        looks: Looks at the present level after which nothing below is tried any more; None for never.
    """
    here, below = points.get(now), points.get(now - 1)
    if here is None or here.ability < aim:
        return False
    if now == least or (looks is not None and here.looks >= looks):
        return True
    return below is not None and below.ability * (1 + 2 * NOISE_SD) < aim
