"""Prices of the joint search: saved load, balance and moves, all in points of load.

Symbols:
    g   load of an average group, points: the scale of what a move can save
    T   TOLERANCE, points

    price of a node's deviation x    g (BETA max(0, |x| - T)^2 + GAMMA x^2)
    price of a move                  LEAST_GAIN g cost / average cost

The first term makes a node that is far off urgent. The second one decides between moves that save the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.arrays import Floats

TOLERANCE = 1.0
"""Deviation from the mean without the price for urgent nodes, points; beyond it, the price grows with the square."""
LEAST_GAIN = 0.02
"""Least saving of a move, as a share of an average group's load."""
BETA = 0.045
"""At 4.7 points beyond the tolerance, a node costs as much as an average group."""
GAMMA = 0.004


@dataclass(frozen=True)
class Prices:
    """Prices of one problem.

    Attributes:
        scale: g, > 0.
        move: Price of moving each group, shape (K,).
        strictness: Factor on the price of deviations, >= 0.
    """

    scale: float
    move: Floats
    strictness: float = 1.0

    def deviation(self, x: Floats) -> Floats:
        """Return the price of each node's deviation from the mean."""
        beyond = np.maximum(0.0, np.abs(x) - TOLERANCE)
        return np.asarray(self.strictness * self.scale * (BETA * beyond**2 + GAMMA * x**2))


def prices(problem: Problem) -> Prices:
    """Return the prices of a problem; a problem without load has a scale of 1."""
    scale = float(problem.load.mean()) if problem.groups and problem.load.any() else 1.0
    mean_cost = float(problem.cost.mean()) if problem.groups else 1.0
    return Prices(scale, LEAST_GAIN * scale * problem.cost / mean_cost)
