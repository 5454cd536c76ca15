"""How long a row waits in micro-batches, and the highest rate that meets a latency goal.

Symbols:
    o     fixed cost of a batch, seconds
    PA    rows per second without the fixed cost
    rho   arrival rate / PA
    D     duration of a batch that keeps up: o / (1 - rho) without a pause between batches, else o + rho T
    T     interval of the trigger, seconds; 0 if batches follow each other as fast as possible
    L     the goal, seconds

A row that arrives just after a batch starts waits until the next one starts, max(D, T), and then for that one's D. So
the longest wait is 2 D under the default trigger, and T + o + rho T if batches end before the next trigger.
"""

from __future__ import annotations

import math


def longest_wait_s(batch_s: float, trigger_s: float = 0.0) -> float:
    """Return the longest time that a row waits, seconds.

    Args:
        batch_s: D, > 0.
        trigger_s: T, >= 0.
    """
    return max(batch_s, trigger_s) + batch_s


def batch_s(fixed_s: float, rho: float, trigger_s: float = 0.0) -> float:
    """Return D, seconds; infinite if the query does not keep up.

    Args:
        fixed_s: o, >= 0.
        rho: Share of PA that arrives, >= 0.
        trigger_s: T, >= 0.
    """
    with_pause = fixed_s + rho * trigger_s
    if with_pause <= trigger_s:
        return with_pause
    return fixed_s / (1 - rho) if rho < 1 else math.inf


def longest_batch_s(goal_s: float, trigger_s: float = 0.0) -> float:
    """Return the D at which a row waits exactly as long as the goal, seconds; <= 0 if no batch is short enough."""
    return goal_s / 2 if goal_s >= 2 * trigger_s else goal_s - trigger_s


def highest_utilisation(fixed_s: float, goal_s: float, trigger_s: float = 0.0) -> float:
    """Return the highest rho at which no row waits longer than the goal; <= 0 if there is none.

    Args:
        fixed_s: o, >= 0.
        goal_s: L, > 0.
        trigger_s: T, >= 0.
    """
    rows_of_s = goal_s / 2 if goal_s >= 2 * trigger_s else trigger_s
    return (longest_batch_s(goal_s, trigger_s) - fixed_s) / rows_of_s if rows_of_s > 0 else 0.0


def throughput(rows_per_s: float, fixed_s: float, batch_rows: float | None) -> float:
    """Return the output of full batches, rows per second: x / (o + x / PA).

    Args:
        rows_per_s: PA, > 0.
        fixed_s: o, >= 0.
        batch_rows: x, rows of a full batch, >= 1; None if batches are not limited, then PA is returned.
    """
    return rows_per_s / (1.0 + rows_per_s * fixed_s / batch_rows) if batch_rows else rows_per_s


def sustainable(
    rows_per_s: float, fixed_s: float, batch_rows: float | None, goal_s: float, trigger_s: float = 0.0
) -> float:
    """Return the sustainable throughput, rows per second: the highest rate at which the goal is met.

    If no rate meets the goal, it is the output of full batches.

    Args:
        rows_per_s: PA, > 0.
        fixed_s: o, >= 0.
        batch_rows: x, rows of a full batch, >= 1; None if batches are not limited.
        goal_s: L, > 0.
        trigger_s: T, >= 0.
    """
    comes_out = throughput(rows_per_s, fixed_s, batch_rows)
    highest = highest_utilisation(fixed_s, goal_s, trigger_s)
    return comes_out if highest <= 0 else min(comes_out, highest * rows_per_s)
