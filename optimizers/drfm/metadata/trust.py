"""How far metadata are believed: the share of recent periods in which they told the truth.

A period counts as told if the rate was within a tolerance of what was expected, or, where no phase is known, of one of
the levels. Trust is an exponentially weighted mean of that; below a threshold other sources are believed instead, and
metadata that come true again are believed again.

Reference: ours; [DRFM] takes metadata as true.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimizers.drfm.metadata.table import Table
from optimizers.drfm.problem import Bools, Floats
from optimizers.ranges import ADMISSION, SHARE, check_fields


@dataclass(frozen=True)
class Trust:
    """When metadata are believed.

    Attributes:
        memory: Weight of a new period, (0, 1].
        least: Trust from which metadata are believed, (0, 1].
        tolerance: Error over the difference of levels that is forgiven, (0, 1].
    """

    memory: float = 0.1
    least: float = 0.7
    tolerance: float = 0.15

    def __post_init__(self) -> None:
        """Refuse what is out of range.

        Raises:
            MillraceError: With the option, its value, what is allowed and the remedy.
        """
        check_fields(self, dict.fromkeys(("memory", "least", "tolerance"), SHARE), ADMISSION)

    def update(self, trust: Floats, table: Table, expected: Floats, rate: Floats) -> Floats:
        """Return the trust after another period, shape (S,).

        Args:
            trust: That before, shape (S,), 1 for a stream that was never seen.
            table: The metadata.
            expected: Rates that they let one expect in that period, shape (S,); NaN where they do not tell.
            rate: Rates that came, shape (S,); NaN where none was seen, which changes nothing.
        """
        gap = np.where(table.high > table.low, table.high - table.low, table.high)
        allowed = self.tolerance * gap + np.finfo(float).tiny
        # between levels there is always a step of a ramp that was sampled a little early or late
        off = np.where(table.cyclic, abs(rate - expected), np.minimum(abs(rate - table.low), abs(rate - table.high)))
        told = np.isfinite(off) & table.two_level
        return np.where(told, trust + self.memory * ((off <= allowed) - trust), trust)

    def believed(self, trust: Floats) -> Bools:
        """Say which streams' metadata are believed, shape (S,)."""
        found: Bools = trust >= self.least
        return found
