"""Whether a rival does better than ours in core-seconds and in time behind at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

NOISE_RATIO = 0.03
"""Core-seconds of two runs of one method differ by about as much, since they end with one batch or another."""
NOISE_S = 1.0
"""So do their seconds behind, where there are any."""


@dataclass(frozen=True)
class Cost:
    """What a run cost: cores that were paid for, and time in which the lag goal was missed."""

    core_seconds: float
    behind_s: float


def beats(rival: Cost, ours: Cost) -> bool:
    """Return whether a rival is no worse in both, and beyond noise better in at least one."""
    cheaper = rival.core_seconds < ours.core_seconds * (1 - NOISE_RATIO)
    quicker = rival.behind_s < ours.behind_s - NOISE_S
    no_dearer = rival.core_seconds <= ours.core_seconds * (1 + NOISE_RATIO)
    no_later = rival.behind_s <= ours.behind_s + NOISE_S
    return (cheaper and no_later) or (quicker and no_dearer)


def better_rivals(rounds: Iterable[Mapping[str, Cost]], ours: str) -> int:
    """Return how often a rival beats ours, over all runs and rivals: one bad run is enough to miss.

    Args:
        rounds: What each method cost in runs that were made one after the other; without those that failed.
        ours: Name of our method.
    """
    return sum(
        beats(rival, costs[ours]) for costs in rounds if ours in costs for name, rival in costs.items() if name != ours
    )
