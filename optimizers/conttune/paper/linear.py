"""p_lin: the linear suggestion for one operator (DS2; [ContTune], Section 5.2, "conservative exploration")."""

from __future__ import annotations

import math

ROUNDING = 1e-9
"""Relative slack before rounding up, so that 3.0000000001 instances are three."""
FAR_BEYOND = 2**31
"""A level beyond any bound, where the wanted one is no finite number."""


def linear(parallelism: int, ability: float, lam: float) -> int:
    """Return p_lin = ceil(lambda / (PA(p) / p)), >= 1.

    Args:
        parallelism: An observed level p, >= 1.
        ability: PA(p), rows a second, > 0.
        lam: Rows a second to process, >= 0.
    """
    wanted = parallelism * (lam / ability)
    return max(1, math.ceil(wanted * (1 - ROUNDING)) if wanted < FAR_BEYOND else FAR_BEYOND)
