"""Whether a rival beats ours in core-seconds and time behind at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

NOISE_RATIO = 0.03
"""Core-seconds of two runs of one method differ by about this much, because they end with different batches."""
NOISE_S = 1.0
"""The same for their seconds behind, if there are any."""


@dataclass(frozen=True)
class Cost:
    """Cost of a run: paid cores, and time in which the lag goal was missed."""

    core_seconds: float
    behind_s: float


def smallest_kept(by_slots: Mapping[int, Cost]) -> Cost | None:
    """Return the cost of the smallest fixed size that keeps the lag goal; None if none does.

    Args:
        by_slots: Cost of each fixed size.
    """
    return next((cost for _, cost in sorted(by_slots.items()) if cost.behind_s <= NOISE_S), None)


def beats(rival: Cost, ours: Cost) -> bool:
    """Return whether a rival is no worse in both, and better in at least one beyond noise."""
    cheaper = rival.core_seconds < ours.core_seconds * (1 - NOISE_RATIO)
    quicker = rival.behind_s < ours.behind_s - NOISE_S
    no_dearer = rival.core_seconds <= ours.core_seconds * (1 + NOISE_RATIO)
    no_later = rival.behind_s <= ours.behind_s + NOISE_S
    return (cheaper and no_later) or (quicker and no_dearer)


def better_rivals(rounds: Iterable[Mapping[str, Cost]], ours: str) -> int:
    """Return how often a rival beats ours, over all runs and rivals: one bad run is enough to miss.

    Args:
        rounds: Cost of each method in consecutive runs; without failed runs.
        ours: Name of our method.
    """
    return sum(
        beats(rival, costs[ours]) for costs in rounds if ours in costs for name, rival in costs.items() if name != ours
    )
