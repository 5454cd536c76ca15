"""What the paper's strategies may be told."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from optimizers.drfm.problem import Problem
from optimizers.ranges import ADMISSION, SHARE, Allowed, Range, check_fields


@dataclass(frozen=True)
class Options:
    """Knobs of Algorithm 1.

    Attributes:
        ahead: Periods that forecasts look ahead (the paper's k), >= 1; no further than the problem does.
        accepts: Share of the capacity below which a node takes streams, (0, 1].
        full: Share of the capacity that may be used, (0, 1]; the paper uses all.
        drains: Share of the capacity below which a node is drained if its streams fit elsewhere, [0, 1].
        tries: Nodes that may be tried to be drained in a period, >= 1.
        latency_s: Delay from which a node counts as overloaded (the QoS bound L), > 0.
    """

    ahead: int = 2
    accepts: float = 0.9
    full: float = 1.0
    drains: float = 0.8
    tries: int = 16
    latency_s: float = 5.0

    def __post_init__(self) -> None:
        """Refuse what is out of range.

        Raises:
            MillraceError: With the option, its value, what is allowed and the remedy.
        """
        check_fields(self, ALLOWED, ADMISSION)

    def steps(self, problem: Problem) -> int:
        """Return k, as far as the problem looks ahead."""
        return min(self.ahead, len(problem.mean))


ALLOWED: Mapping[str, Allowed] = {
    "ahead": int,
    "accepts": SHARE,
    "full": SHARE,
    "drains": Range(0, 1),
    "tries": int,
    "latency_s": Range(0, math.inf, low_open=True),
}
