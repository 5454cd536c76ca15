"""Which share of the new tuples is dropped to keep workers from overflowing.

Symbols:
    tau    utilisation of a worker
    tau2   where shedding begins
    B      base: what is shed at tau2

    SF = B + (1 - B) (tau - tau2) / (1 - tau2)        linear      (3)
    SF = B + (1 - B) ((tau - tau2) / (1 - tau2))^2    quadratic

SF is 0 below tau2 and 1 from tau = 1 on: a full worker takes nothing.

Reference: [ESJ-A] "Adaptive load shedding", Equation 3; "e.g., by applying a quadratic function" is all that it says of
the other form, which is chosen to have the same ends and to shed less between them.
"""

from __future__ import annotations

import math

EXPONENT = {"linear": 1, "quadratic": 2}
"""Of each form."""
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
    """Return a factor as a multiple of a step, or the current one where that is less than a step away.

    A change of the shed ratio is a version of the Deployment: it has to be worth one. Nothing and everything are exact.

    Args:
        factor: What is wanted, 0..1.
        current: What is in force, 0..1.
        step: (0, 1].
    """
    if factor in (0.0, 1.0):
        return factor
    if 0 < current < 1 and abs(factor - current) < step - ROUNDING:
        return current
    # up: a worker near its end must not be left with less relief than the form gives it
    return min(1.0, round(math.ceil(factor / step - ROUNDING) * step, 9))
