"""p_lin: the linear suggestion for one operator (DS2; [ContTune], Section 5.2, "conservative exploration").

DS2 for a single operator: optimal p = ceil(lambda / (true processing rate / p)). Chains of operators come with DS2 as
an optimizer of its own.
"""

from __future__ import annotations

import math

ROUNDING = 1e-9
"""Relative slack before rounding up, so that 3.0000000001 instances are three."""


def linear(parallelism: int, ability: float, lam: float, exponent: float = 1.0) -> int:
    """Return p_lin, >= 1.

    Args:
        parallelism: An observed level, >= 1.
        ability: Its processing ability, rows a second, > 0.
        lam: Rows a second to process, >= 0.
        exponent: e in PA(p) ~ p^e for steps up, (0, 1.5]; 1 is DS2.

    Deviation:
        With an exponent below 1 a step up is larger than DS2's, which falls short wherever scaling is sublinear.
        Downward it is linear always: there sublinear scaling makes DS2 err on the safe side.
    """
    ratio = lam / ability
    if ratio > 1:
        ratio = ratio ** (1 / exponent)
    wanted = parallelism * ratio
    return max(1, math.ceil(wanted * (1 - ROUNDING)) if math.isfinite(wanted) else 2**31)
