"""The four utilisations of a join's workers at which its policy acts.

    tau0   workers are taken away where utilisation stays at or below it
    tau1   utilisation that a number of workers is chosen for
    tau2   shedding begins
    tau3   workers are added where utilisation stays at or above it

    0 < tau0 < tau1 < tau2 < tau3 <= 1      (1)

Utilisation is tuples that a worker keeps over those it can keep.

Reference: [ESJ-A] "Adapting to the varying workload", Equation 1; tau1 = tau2 / 2 is its advice. It gives no tau0 and
tau3: half of tau1 is as far below it as tau1 is below tau2, and tau3 leaves a quarter of what is above tau2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from include.model.errors import MillraceError
from optimizers.ranges import JOIN, SHARE, check

TAU2 = 0.8
ABOVE = 0.75
"""Share of the way from tau2 to 1 at which tau3 lies."""


@dataclass(frozen=True)
class Thresholds:
    """Utilisations, each within (0, 1], in ascending order.

    Attributes:
        tau0: Few enough tuples to take workers away.
        tau1: What a number of workers is chosen for.
        tau2: Shedding begins.
        tau3: Enough tuples to add workers.

    Raises:
        MillraceError: If one is out of range, or they are out of order.
    """

    tau0: float = TAU2 / 4
    tau1: float = TAU2 / 2
    tau2: float = TAU2
    tau3: float = TAU2 + ABOVE * (1 - TAU2)

    def __post_init__(self) -> None:
        """Refuse what Equation 1 does not allow."""
        for field in fields(self):
            check(field.name, getattr(self, field.name), SHARE, JOIN)
        if not self.tau0 < self.tau1 < self.tau2 < self.tau3:
            told = f"tau0={self.tau0:g}, tau1={self.tau1:g}, tau2={self.tau2:g}, tau3={self.tau3:g}"
            remedy = "Put them in ascending order, or leave out what has a default."
            raise MillraceError(f"{JOIN}.tau0..tau3", told, "0 < tau0 < tau1 < tau2 < tau3 <= 1", remedy)


def thresholds(given: Mapping[str, Any]) -> Thresholds:
    """Return thresholds; those that are left out follow from the ones that are given.

    Args:
        given: Any of tau0 to tau3, by name.

    Raises:
        MillraceError: If one is out of range, or they are out of order.
    """
    for name, value in given.items():
        check(name, value, SHARE, JOIN)
    tau2 = given.get("tau2", TAU2)
    tau1 = given.get("tau1", tau2 / 2)
    return Thresholds(given.get("tau0", tau1 / 2), tau1, tau2, given.get("tau3", tau2 + ABOVE * (1 - tau2)))
