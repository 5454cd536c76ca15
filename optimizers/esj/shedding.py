"""Which share of the new tuples is dropped to keep workers from overflowing.

Symbols:
    tau    utilisation of a worker
    tau2   shedding begins
    B      base: share that is shed at tau2

    SF = B + (1 - B) (tau - tau2) / (1 - tau2)        linear      (3)
    SF = B + (1 - B) ((tau - tau2) / (1 - tau2))^2    quadratic

SF is 0 below tau2 and 1 from tau = 1 on: a full worker takes nothing.

Reference: [ESJ-A] "Adaptive load shedding", Equation 3. Of the other form it only says "e.g., by applying a quadratic
function"; the one here has the same ends and sheds less between them.
"""

from __future__ import annotations

import math

EXPONENT = {"linear": 1, "quadratic": 2}
"""Exponent of each form."""
ROUNDING = 1e-9


def shed_factor(utilisation: float, begin: float, base: float, form: str = "linear") -> float:
    """Return SF, the share of new tuples to drop, 0..1.

    Args:
        utilisation: tau, >= 0; may be above 1.
        begin: tau2, (0, 1).
        base: B, 0..1.
        form: One of :data:`EXPONENT`.
    """
    if utilisation < begin:
        return 0.0
    if utilisation >= 1:
        return 1.0
    return min(1.0, base + (1 - base) * ((utilisation - begin) / (1 - begin)) ** EXPONENT[form])


def round_to_step(factor: float, current: float, step: float) -> float:
    """Return a factor rounded up to a multiple of a step, or the current one if it is less than a step away.

    A change of the shed ratio is a new version of the Deployment, so small changes are skipped. 0 and 1 stay exact.

    Args:
        factor: The factor that is wanted, 0..1.
        current: The factor in force, 0..1.
        step: (0, 1].
    """
    if factor in (0.0, 1.0):
        return factor
    if 0 < current < 1 and abs(factor - current) < step - ROUNDING:
        return current
    # up: a worker that is nearly full must get at least the relief that the form gives
    return min(1.0, round(math.ceil(factor / step - ROUNDING) * step, 9))
