"""What the first batches at new slots show: their capacity before enough have run for a fit, and the change's cost.

The first batch at new slots is cold: classes are loaded, and Python workers start. Two batches are expected to take
longer than usual. An app that cannot keep up need not wait for a fit. If more rows wait than full batches read, or more
than the last batch read, the second batch is enough: its rows, its duration and the useful time of its tasks give a
slope and a fixed cost, at most 20 % off in most cases.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from statistics import median

from millrace.control.batch_history import History, running_s, span
from millrace.control.capacity import COVERAGE, MAX_RELATIVE_ERROR, is_as_good_as_empty, parallelism, work
from millrace.control.rates import is_full
from millrace.model.signals import Capacity
from millrace.model.telemetry import BatchMetrics

COLD_BATCHES = 2
"""Batches after a change of slots that take longer than usual."""
BEHIND = 1.2
"""An app falls behind if as many times more rows wait after a batch as it read: the next batches are longer and longer.
"""
ONE_BATCH = 0.2
"""Relative error of what a single batch shows, in addition to that of its useful time."""
LEAST_CHANGES = 2
"""Live changes whose cost must be known: the first one after a launch often meets a driver that is itself cold."""


def first_batches(history: History) -> Capacity | None:
    """Return the capacity that the batches at the present slots show, without the cold first one.

    None if fewer than two batches have run there, if the last one keeps up or is as good as empty, or if its p is
    unknown.

    Args:
        history: The app's telemetry.
    """
    runs = _runs(history.batches)
    if not runs or len(runs[-1]) < COLD_BATCHES or runs[-1][-1].slots != history.newest.slots:
        return None
    last = runs[-1][-1]
    if is_as_good_as_empty(last) or not (rows_of_full_batch(history) or _falls_behind(last)):
        return None
    return _of_one(min(runs[-1][1:], key=lambda b: b.duration_s / max(b.rows_in, 1)), len(runs[-1]) - 1)


def rows_of_full_batch(history: History) -> int | None:
    """Return the rows of the last batch if it left some behind that already waited; else None."""
    full = len(history.batches) > 1 and is_full(*history.batches[-2:])
    return history.batches[-1].rows_in if full else None


def first_batch_s(history: History) -> float | None:
    """Return how long the first batch of a driver has been running, seconds; None if one of its batches has ended."""
    return None if history.present(history.batches) else running_s(history.newest) or None


def change_s(history: History, fitted: Mapping[int, Capacity]) -> float | None:
    """Return the median cost of recent changes of slots, seconds; None if none was measured, or only one live.

    The cost is the downtime of a restart, plus the time that the cold batches took beyond the fit.

    Args:
        history: The app's telemetry.
        fitted: Capacity by the p that ran.
    """
    costs, restarts = [], 0
    for before, after in pairwise(_runs(history.batches)):
        cold = [(b, fitted.get(parallelism(b) or 0)) for b in after[:COLD_BATCHES]]
        if before[-1].slots == after[0].slots or len(cold) < COLD_BATCHES:
            continue
        longer = [b.duration_s - fit.fixed_s - b.rows_in / fit.rows_per_s for b, fit in cold if fit is not None]
        if len(longer) < COLD_BATCHES:
            continue
        restarted = before[-1].generation != after[0].generation
        down_s = (span(after[0])[0] - before[-1].time).total_seconds() if restarted else 0.0
        restarts += restarted
        costs.append(max(0.0, down_s) + sum(max(0.0, s) for s in longer))
    return median(costs) if restarts or len(costs) >= LEAST_CHANGES else None


def _runs(batches: Sequence[BatchMetrics]) -> list[list[BatchMetrics]]:
    """Return the batches in groups that ran in a row on the same slots of the same driver."""
    return [list(run) for _, run in groupby(batches, key=lambda b: (b.generation, b.slots))]


def _falls_behind(last: BatchMetrics) -> bool:
    """Return whether far more rows wait after a batch than it read, and its tasks show what a row costs."""
    return (last.backlog_rows or 0) > BEHIND * last.rows_in and work(last) is not None


def _of_one(batch: BatchMetrics, batches: int) -> Capacity | None:
    p, spent = parallelism(batch), work(batch)
    if p is None or batch.rows_in < 1:
        return None
    work_s, error = batch.duration_s, MAX_RELATIVE_ERROR  # without useful time, the whole batch counts as work
    if spent is not None:
        work_s = min(batch.duration_s, COVERAGE.mean * spent.rows_s)
        error = min(MAX_RELATIVE_ERROR, math.hypot(ONE_BATCH, COVERAGE.error, spent.error_s / spent.rows_s))
    rate = batch.rows_in / work_s
    return Capacity(p, batch.duration_s - work_s, rate, error * rate, batches)
