"""Loads of a stream join: tuples of its two streams that arrive in each step.

    ramp6     the rate grows to six times over ten minutes and stays there
    step      the rate jumps to three times and stays there
    burst     16 seconds at six times the rate, repeatedly
    diurnal   the rate varies between its night value and four times that, for two days of an hour

Tuples arrive at random (Poisson) around the rate, half of them on each stream. Rates start at the join's expected rate.

Reference: the paper ([ESJ-A]) measures none of these; it states the purpose of each threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from millrace.model.errors import MillraceError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RATE = 100.0
"""Expected rate of both streams together, tuples per second."""
BURST_S, GAP_S = 16, 200
"""Length of a burst, and time from the start of one burst to the next."""
DAY_S = 3600


def ramp6() -> Floats:
    """Return the ratio to the expected load: five minutes, ten of growth, fifteen at six times."""
    return np.concatenate([np.ones(300), np.linspace(1, 6, 600), np.full(900, 6.0)])


def step() -> Floats:
    """Return the ratio to the expected load: ten minutes, then twenty at three times."""
    return np.concatenate([np.ones(600), np.full(1200, 3.0)])


def burst() -> Floats:
    """Return the ratio to the expected load: bursts for half an hour."""
    found: Floats = np.where(np.arange(1800) % GAP_S >= GAP_S - BURST_S, 6.0, 1.0)
    return found


def diurnal() -> Floats:
    """Return the ratio to the expected load: two days that start at night."""
    found: Floats = 2.5 - 1.5 * np.cos(2 * np.pi * np.arange(2 * DAY_S) / DAY_S)
    return found


WORKLOADS: Mapping[str, Callable[[], Floats]] = {"ramp6": ramp6, "step": step, "burst": burst, "diurnal": diurnal}


def arrivals(workload: str, seed: int, rate: float = RATE) -> Ints:
    """Return the tuples of each stream that arrive in each second, shape (T, 2).

    Args:
        workload: One of :data:`WORKLOADS`.
        seed: Seed of the arrivals, >= 0.
        rate: Expected rate of both streams together, tuples per second, > 0.

    Raises:
        MillraceError: If the workload does not exist.
    """
    if workload not in WORKLOADS:
        raise MillraceError("workload", workload, ", ".join(WORKLOADS), "Name one of these.")
    course = WORKLOADS[workload]() * rate / 2
    return np.random.default_rng(seed).poisson(course[:, None], (len(course), 2)).astype(np.int64)
