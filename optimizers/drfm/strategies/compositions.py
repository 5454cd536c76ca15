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


def _relieving(name: str, sizes: parts.Sizes, pick: parts.Pick) -> Callable[[Options], Strategy]:
    """Return the maker of a strategy that only moves streams off overloaded nodes."""

    def make(options: Options) -> Strategy:
        return Strategy(name, sizes, parts.beyond_capacity, pick, parts.below_level, options=options)

    return make


STRATEGIES: Mapping[str, Callable[[Options], Strategy]] = {
    "par": par,
    "ari": _relieving("ari", parts.last_rate, parts.least_rate),
    "ard": _relieving("ard", parts.last_rate, parts.greatest_rate),
    "drf": _relieving("drf", parts.expected_rate, parts.greatest_rise),
    "drfm": _relieving("drfm", parts.expected_rate, parts.greatest_rise),
}
