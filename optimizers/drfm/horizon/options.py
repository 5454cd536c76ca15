"""What the horizon planner may be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from optimizers.ranges import ADMISSION, NOT_NEGATIVE, POSITIVE, SHARE, Allowed, Range, check_fields


@dataclass(frozen=True)
class Options:
    """Knobs of the horizon planner.

    Attributes:
        ahead: Periods looked ahead (H), >= 1; twice the longest part of a cycle sees every opposite come.
        margin: Standard deviations that a node keeps free (z), >= 0.
        patience: Share of the margin that may be used up before a node counts as overloaded, [0, 1].
        act: Periods ahead within which an overload is repaired, >= 1; later ones can wait and may not come.
        catch_up_s: Seconds in which a node is to work its queue off, > 0.
        move_price: Node-periods that a redirection has to save, >= 0.
        pairing: Least share of two streams' peaks that they save together to be placed as one, (0, 1]; 1 for no pairs.
        pair_limit: New streams beyond which no pairs are looked for, >= 1: it takes the square of them.
        drains: Nodes that may be tried to be drained in a period, >= 1.
        swaps: Streams elsewhere that an overloaded node may be offered in exchange, >= 1.
        polish: Let CP-SAT look for the best plan.
        effort: Deterministic time that CP-SAT has for a period, > 0.
    """

    ahead: int = 48
    margin: float = 3.5
    patience: float = 0.15
    act: int = 1
    catch_up_s: float = 60.0
    move_price: float = 0.7
    pairing: float = 0.1
    pair_limit: int = 2000
    drains: int = 16
    swaps: int = 256
    polish: bool = False
    effort: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is out of range.

        Raises:
            MillraceError: With the option, its value, what is allowed and the remedy.
        """
        check_fields(self, ALLOWED, ADMISSION)


ALLOWED: Mapping[str, Allowed] = {
    "ahead": int,
    "margin": NOT_NEGATIVE,
    "patience": Range(0, 1),
    "act": int,
    "catch_up_s": POSITIVE,
    "move_price": NOT_NEGATIVE,
    "pairing": SHARE,
    "pair_limit": int,
    "drains": int,
    "swaps": int,
    "polish": None,
    "effort": POSITIVE,
}
