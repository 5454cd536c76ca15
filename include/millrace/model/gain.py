"""The rule for when a change did not help: for a tuner before it proposes slots, for verification after a change."""

from __future__ import annotations

from dataclasses import dataclass

SUSTAINABLE = "sustainable_rows_per_s"
"""Key of the sustainable throughput that larger batches are predicted to have, and that they achieve."""


@dataclass(frozen=True)
class Gain:
    """What a change gained, all in one unit.

    Attributes:
        promised: Predicted gain.
        came: Measured gain.
        doubt: Standard error of the measured gain, >= 0.
    """

    promised: float
    came: float
    doubt: float

    def falls_short(self, least: float) -> bool:
        """Return whether the gain is surely less than a share of what was promised."""
        return self.came + self.doubt < least * self.promised

    def missed(self, least: float) -> bool:
        """Return whether the gain falls short, more than nothing was promised, and it is not surely above zero."""
        return self.promised > 0 and self.falls_short(least) and self.came <= self.doubt
