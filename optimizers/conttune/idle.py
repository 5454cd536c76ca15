"""Whether slots can be given back although no throughput is known, because batches have almost no rows.

Symbols:
    d    mean duration of a batch at n slots, seconds;  o  its fixed cost
    rho  share of a batch that is work on rows: less than 1/3 if it is as good as empty
         (:func:`millrace.control.capacity.is_as_good_as_empty`)

With half of the slots, fixed cost and work on a row take at most twice as long. So a batch takes at most
2 o / (1 - 2 rho), where o = d (1 - rho). This is at most 4 d.
"""

from __future__ import annotations

from millrace.model import row_wait
from millrace.model.objective import Objective
from millrace.model.signals import AppSignals

EVALUATIONS = 3
"""Consecutive evaluations after which a load counts as low: a change would cost as much as it saves in that time."""
LONGER = 4
"""A batch takes at most as many times as long with half of the slots."""
MIN_BATCHES = 3
"""Fewest batches of a period that say how long batches are; fewer if its trigger starts no more."""


def is_idle(app: AppSignals, objective: Objective, period_s: float) -> bool:
    """Return whether half of an app's slots would surely be enough for what arrived in a period.

    Args:
        app: The app's signals; a query in real-time mode, or one of several, has no batches that say so.
        objective: The pipeline's.
        period_s: Length of the period, seconds.
    """
    if app.arrival_rows_per_s is None or app.queries or app.running_tasks is not None or app.first_batches is not None:
        return False
    if not app.batches:
        return app.arrival_rows_per_s == 0 and not app.backlog_rows and app.first_batch_s is None
    due = max(1, int(period_s / app.trigger_s)) if app.trigger_s > 0 else MIN_BATCHES
    if app.backpressured_ratio or app.busy_ratio is None:
        return False
    if not min(MIN_BATCHES, due) <= app.healthy_batches <= app.empty_batches:
        return False
    return longest_wait_s(app, period_s) <= objective.max_lag_s


def longest_wait_s(app: AppSignals, period_s: float) -> float:
    """Return the longest that a row would wait with half of the slots, seconds.

    Args:
        app: Signals of an idle app.
        period_s: Length of the period, seconds.
    """
    batch_s = (app.busy_ratio or 0.0) * period_s / max(1, app.batches)
    return row_wait.longest_wait_s(LONGER * batch_s, app.trigger_s)
