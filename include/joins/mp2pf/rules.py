"""What all workers of a chain agree on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from include.model.errors import MillraceError

COPIES = ("one stream", "both streams", "no stream")
SIZES = ("acknowledged", "reported")


@dataclass(frozen=True)
class Rules:
    """Windows, and which reading of the protocol holds.

    Attributes:
        window_r: How much newer than a tuple of R its partners may be, event time, >= 0, finite.
        window_s: The same of a tuple of S.
        copies: Who may join with copies of blocks that are not acknowledged: arriving tuples of ``one stream`` (R, with
            copies of S: every pair meets once), ``both streams`` or ``no stream`` (pairs that cross on a link meet
            twice, or never).
        sizes: A successor's workload is known as the last ``acknowledged`` one and what is under way to it; or, by the
            letter of [ESJ-C], as the last ``reported`` by SIZE_CHG, which comes only after copies were deleted.

    Raises:
        MillraceError: If a window is negative or has no end, or a word unknown.
    """

    window_r: float
    window_s: float
    copies: Literal["one stream", "both streams", "no stream"] = "one stream"
    sizes: Literal["acknowledged", "reported"] = "acknowledged"

    def __post_init__(self) -> None:
        for name in ("window_r", "window_s"):
            value = getattr(self, name)
            # without an end a flush could not tell that a tuple is due
            if not 0 <= value < math.inf:
                raise MillraceError(name, value, "a finite number >= 0", "Set how far apart partners may be.")
        for name, words in (("copies", COPIES), ("sizes", SIZES)):
            if getattr(self, name) not in words:
                raise MillraceError(name, getattr(self, name), ", ".join(words), "Choose one of these.")

    @property
    def windows(self) -> tuple[float, float]:
        """By stream, how much newer partners may be."""
        return self.window_r, self.window_s

    @property
    def literal_sizes(self) -> bool:
        """Whether only SIZE_CHG tells sizes."""
        return self.sizes == "reported"

    def within(self, r: float, s: float) -> bool:
        """Say whether tuples of these times may be partners.

        Args:
            r: Of the tuple of R.
            s: Of the tuple of S.
        """
        return s - r <= self.window_r and r - s <= self.window_s
