"""What the joint search may be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from optimizers.ranges import NOT_NEGATIVE, POSITIVE, Allowed, check_fields


@dataclass(frozen=True)
class Options:
    """Knobs of the joint search.

    Attributes:
        tolerance: Deviation from the mean that a node may have for nothing, points, > 0; more than that has a price
            that grows with its square.
        max_distance: Load distance beyond which balance goes before collocation, points, > 0 (the paper's maxLD).
        factor: What makes a pair heavy (the paper's sF), > 0.
        least_gain: What a move has to save, as a share of an average group's load, >= 0: nothing moves for nothing.
        guided: Steer by a target for the whole cluster; otherwise every move has to pay at once.
        rounds: How often part of the moves is taken back and chosen anew, >= 0; fewer in large clusters.
    """

    tolerance: float = 1.0
    max_distance: float = 10.0
    factor: float = 1.5
    least_gain: float = 0.02
    guided: bool = True
    rounds: int = 24

    def __post_init__(self) -> None:
        """Refuse what is out of range.

        Raises:
            MillraceError: With the option, its value, what is allowed and the remedy.
        """
        check_fields(self, ALLOWED, "joint")


ALLOWED: Mapping[str, Allowed] = {
    "tolerance": POSITIVE,
    "max_distance": POSITIVE,
    "factor": POSITIVE,
    "least_gain": NOT_NEGATIVE,
    "rounds": NOT_NEGATIVE,
    "guided": None,
}
