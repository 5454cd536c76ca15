"""The Big phase ([ContTune], Algorithm 1, lines 3-17): out of the backpressure by binary lifting."""

from __future__ import annotations

from collections.abc import Mapping


def lift(p_now: Mapping[str, int], p_max: int) -> tuple[Mapping[str, int], int]:
    """Return one pass of the loop body for an under-provisioned job.

    The loop itself runs over the looks: each reconfiguration is measured before the next pass.

    Args:
        p_now: Present level of every operator of the job.
        p_max: Highest level known in all H^t of the job.

    Returns:
        The levels to apply, and the new p_max: twice the old one if all operators had it already and the job is
        under-provisioned all the same.

    Reference:
        Algorithm 1, lines 5-16.
    """
    if all(p == p_max for p in p_now.values()):
        p_max = 2 * p_max
    return dict.fromkeys(p_now, p_max), p_max
