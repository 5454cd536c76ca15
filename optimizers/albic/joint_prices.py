"""Prices of the joint search: saved load, balance and moves, all in points of load.

Symbols:
    g   load of an average group, points: the scale of what a move can save
    T   tolerance, points

    price of a node's deviation x    g (BETA max(0, |x| - T)^2 + GAMMA x^2)
    price of a move                  least_gain g cost / average cost

The first term makes a node that is far off urgent. The second one decides between moves that save the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import Field

from millrace.optimizers.albic.problem import Floats, Problem
from millrace.optimizers.api import Options

BETA = 0.045
"""At 4.7 points beyond the tolerance, a node costs as much as an average group."""
GAMMA = 0.004


class JointOptions(Options):
    """Options of the joint search.

    Attributes:
        tolerance: Deviation from the mean without the price for urgent nodes, points, > 0; beyond it the price grows
            with the square.
        max_distance: Load distance beyond which balance comes before collocation, points, > 0 (the paper's maxLD).
        least_gain: Least saving of a move, as a share of an average group's load, >= 0.
        guided: Steer by a target for the whole cluster; otherwise every move has to pay at once.
        rounds: How often part of the moves is undone and chosen again, >= 0; fewer in large clusters.
    """

    section: ClassVar[str] = "joint"

    tolerance: float = Field(1.0, gt=0)
    max_distance: float = Field(10.0, gt=0)
    least_gain: float = Field(0.02, ge=0)
    guided: bool = True
    rounds: int = Field(24, ge=0)


@dataclass(frozen=True)
class Prices:
    """Prices of one problem.

    Attributes:
        scale: g, > 0.
        tolerance: T.
        move: Price of moving each group, shape (K,).
        strictness: Factor on the price of deviations, >= 0.
    """

    scale: float
    tolerance: float
    move: Floats
    strictness: float = 1.0

    def deviation(self, x: Floats) -> Floats:
        """Return the price of each node's deviation from the mean."""
        beyond = np.maximum(0.0, np.abs(x) - self.tolerance)
        return np.asarray(self.strictness * self.scale * (BETA * beyond**2 + GAMMA * x**2))


def prices(problem: Problem, options: JointOptions) -> Prices:
    """Return the prices of a problem; a problem without load has a scale of 1."""
    scale = float(problem.load.mean()) if problem.groups and problem.load.any() else 1.0
    mean_cost = float(problem.cost.mean()) if problem.groups else 1.0
    return Prices(scale, options.tolerance, options.least_gain * scale * problem.cost / mean_cost)
