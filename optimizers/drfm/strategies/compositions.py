"""The five strategies of the paper ([DRFM], Sections 2.5 and 6.1.2).

    PAR    all streams placed anew by last rates, every period
    ARI    overloaded nodes give away the slowest streams
    ARD    overloaded nodes give away the fastest streams
    DRF    overloaded nodes give away the streams that will rise most, by forecasts
    DRF-M  the same, by expectations with metadata

DRF and DRF-M differ in what the problem's ``mean`` holds, and in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from optimizers.drfm.strategies import parts
from optimizers.drfm.strategies.options import Options
from optimizers.drfm.strategies.skeleton import Strategy


def par(options: Options) -> Strategy:
    """Return Plain Average Rate."""
    return Strategy("par", parts.last_rate, parts.every_node, parts.greatest_rate, parts.no_node, True, options)


def ari(options: Options) -> Strategy:
    """Return Average Rate Increasing."""
    return Strategy("ari", parts.last_rate, parts.beyond_capacity, parts.least_rate, parts.below_level, options=options)


def ard(options: Options) -> Strategy:
    """Return Average Rate Decreasing."""
    return Strategy(
        "ard", parts.last_rate, parts.beyond_capacity, parts.greatest_rate, parts.below_level, options=options
    )


def drf(options: Options) -> Strategy:
    """Return Delta Rate Forecasting."""
    return Strategy(
        "drf", parts.expected_rate, parts.beyond_capacity, parts.greatest_rise, parts.below_level, options=options
    )


def drfm(options: Options) -> Strategy:
    """Return Delta Rate Forecasting with Metadata."""
    return Strategy(
        "drfm", parts.expected_rate, parts.beyond_capacity, parts.greatest_rise, parts.below_level, options=options
    )


STRATEGIES: Mapping[str, Callable[[Options], Strategy]] = {"par": par, "ari": ari, "ard": ard, "drf": drf, "drfm": drfm}
