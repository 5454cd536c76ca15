"""What arrives now, where the rate jumped within the period: its mean is then of neither rate.

The newest third tells more. If the rate jumped once from b to n, and the share f of the period lies after the jump,
then the mean is m = b + f (n - b). For f >= 1/3 the newest third's rate r is n; for less, r - b = 3 (m - b). Hence
(m - b) / (r - b) tells the two apart: it is f where r is the new rate, and 1/3 where r is halfway and n unknown still.
A rate that merely fluctuates has its mean near b and a ratio near 0, and is told from a jump by that.
"""

from __future__ import annotations

from dataclasses import replace

from optimizers.conttune.job import Job

MOVE = 0.04
"""Relative change of the rate from which the newest third is believed, where the mean lies between it and before."""
JUMP = 0.1
"""Relative difference of newest third and mean that no ordinary fluctuation makes."""
TRIFLE = 0.01
"""Share of what an operator can do below which a change of the rate decides nothing, whatever it is beside the rate."""
WHOLE = 0.4
"""Share of the period after a jump from which its newest third, for sure, is all of the new rate."""


def arriving(job: Job, before: float | None) -> float | None:
    """Return the rate that holds at the period's end, rows a second; None if that cannot be told yet.

    Args:
        job: The job; with its mean rate.
        before: The rate before the period, rows a second; None if unknown.
    """
    mean, newest = job.app.arrival_rows_per_s, job.app.arrival_recent_rows_per_s
    other = newest if newest is not None else before
    if mean is None or other is None:
        return mean
    if before is None:
        return other  # a first look has nothing to compare with: what came last is the best that is known
    if _jumped(before, mean, other):
        return newest
    trifle = TRIFLE * min((o.ability for o in job.sizable if o.ability is not None), default=0.0)
    return mean if abs(mean - other) <= max(JUMP * max(mean, other), trifle) else None


def _jumped(before: float, mean: float, newest: float) -> bool:
    """Say whether the rate jumped, and the newest third is all of the new one."""
    move = newest - before
    return abs(move) > MOVE * max(newest, before) and WHOLE <= (mean - before) / move < 1


def at_rate(job: Job, rate: float) -> Job:
    """Return the job as it is with another arrival rate than the period's mean.

    Args:
        job: The job; with its mean rate.
        rate: Rows a second that arrive now.
    """
    mean = job.app.arrival_rows_per_s
    if mean is None or mean == rate:
        return job
    factor = rate / mean if mean > 0 else 1.0
    operators = tuple(
        o if o.arrival is None else replace(o, arrival=o.arrival * factor if o.newest is None else o.newest)
        for o in job.operators
    )
    return replace(job, app=replace(job.app, arrival_rows_per_s=rate), operators=operators)
