"""Model an app in an evaluation that never happened: its recorded load, on other slots.

Symbols: lambda rows per second that arrived (as recorded), T seconds since the evaluation before, d seconds of it
without a driver, p the parallelism that ran, r(p) the rate that p sustains, B rows waiting.

    B' = max(B + lambda T - r(p) (T - d), lambda o(p) / (1 - rho))
The second term is what always waits when a batch ends: the rows that came during it (rho = lambda / PA(p), at most
95 %), but no more than there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from millrace.model.arrival import ArrivalBasis
from millrace.model.objective import Objective
from millrace.model.signals import AppSignals, Capacity
from millrace.reporting.recorded_throughputs import RecordedThroughput

LEAST_ROOM = 0.05
"""1 - rho from which a batch counts as endless: no app is planned any closer to its limit."""

LEAST_BATCH_S = 0.05
"""No micro-batch is shorter, whatever the fit says."""

UNSETTLED_BATCHES = 3
"""Batches after a restart before figures are trusted: the first is cold, and two healthy ones must follow."""


@dataclass(frozen=True)
class Waiting:
    """Rows that wait in the replay.

    Attributes:
        rows: B, >= 0; None if unknown.
        before: B when the last restart of the replay started.
        lag: Rows that this restart kept waiting and that have not drained since.
    """

    rows: float | None
    before: float = 0.0
    lag: float = 0.0

    def restarted(self, kept: float) -> Waiting:
        """Return the state at a restart that keeps a number of rows waiting."""
        return replace(self, before=self.rows or 0.0, lag=kept)

    def now(self, rows: float) -> Waiting:
        """Return the state with other rows waiting: lag that has drained never comes back."""
        return replace(self, rows=rows, lag=min(self.lag, max(0.0, rows - self.before)))


@dataclass(frozen=True)
class Span:
    """The time that an evaluation stands for.

    Attributes:
        length_s: T, > 0.
        down_s: d, 0..T.
        since_ready_s: Time since the replay's last restart ended, negative before that; None without one.
    """

    length_s: float
    down_s: float = 0.0
    since_ready_s: float | None = None


def planned_rows(arrival: float, fixed_s: float, objective: Objective) -> float:
    """Return the rows that wait after the longest batch that the objective plans for."""
    return arrival * objective.planned_batch_s(fixed_s)


def usual_batch_s(arrival: float, capacity: Capacity) -> float:
    """Return the duration of a batch that reads what came during the batch before, seconds."""
    return capacity.fixed_s / max(LEAST_ROOM, 1 - arrival / capacity.rows_per_s)


def unsettled(arrival: float, capacity: Capacity | None, span: Span) -> bool:
    """Return whether the last restart is too recent for figures to be trusted."""
    if span.since_ready_s is None:
        return False
    needed_s = UNSETTLED_BATCHES * usual_batch_s(arrival, capacity) if capacity else 0.0
    return span.since_ready_s < needed_s


def modelled(
    recorded: AppSignals,
    slots: int,
    waiting: Waiting,
    throughputs: RecordedThroughput,
    objective: Objective,
    span: Span,
) -> tuple[AppSignals, Waiting]:
    """Return the signals that other slots would have given, and what waits afterwards.

    Args:
        recorded: Recorded signals.
        slots: Slots of the replay, >= 1.
        waiting: Rows waiting at the evaluation before.
        throughputs: The app's throughput by level.
        objective: The pipeline's objective.
        span: The time that the evaluation stands for.
    """
    p, arrival = throughputs.ran(slots), recorded.arrival_rows_per_s
    capacity = throughputs.capacity(p, 1)
    begin = recorded.backlog_rows if waiting.rows is None else waiting.rows
    blank = replace(
        recorded,
        slots=slots,
        parallelism=p,
        source_splits=p < slots,
        operators=(),
        edges=(),
        arrival_basis=_basis(recorded.arrival_basis),
        first_batches=None,
    )
    if capacity is None or arrival is None or begin is None:
        return _unknown(blank), waiting
    if span.down_s > 0:
        waiting = waiting.restarted(arrival * span.down_s)
    load = Load(arrival, capacity, throughputs, span)
    end = load.rows_after(begin)
    waiting = waiting.now(end)
    growth = (end - begin) / span.length_s
    processed = max(0.0, arrival - growth)
    batches = load.batches(processed * span.length_s, end)
    healthy = max(0, batches - (span.down_s > 0))
    limit = planned_rows(arrival, capacity.fixed_s, objective)
    full = throughputs.batch_rows is not None and end > throughputs.batch_rows
    app = replace(
        blank,
        processed_rows_per_s=processed,
        backlog_rows=round(end),
        backlog_growth_rows_per_s=growth,
        batches=batches,
        healthy_batches=healthy,
        busy_ratio=load.serving_s / span.length_s if batches else 0.0,
        backpressured_ratio=_share_above(limit, begin, end),
        slot_busy_ratio=min(1.0, throughputs.busy_per_use * processed / capacity.rows_per_s * p / slots),
        capacity=None if unsettled(arrival, capacity, span) else replace(capacity, batches=max(1, healthy)),
        restart_lag_rows=round(waiting.lag),
        batch_rows_limit=round(throughputs.batch_rows or 0) if full else recorded.batch_rows_limit,
    )
    return app, waiting


@dataclass(frozen=True)
class Load:
    """The load of one span on an app of a known capacity."""

    arrival: float
    capacity: Capacity
    throughputs: RecordedThroughput
    span: Span

    @property
    def serving_s(self) -> float:
        """Time with a driver, seconds."""
        return self.span.length_s - self.span.down_s

    def rows_after(self, rows: float) -> float:
        """Return B' for B waiting rows."""
        most = rows + self.arrival * self.span.length_s
        left = most - self.throughputs.sustained(self.capacity) * self.serving_s
        return max(left, min(most, self.arrival * usual_batch_s(self.arrival, self.capacity)))

    def batches(self, processed: float, rows: float) -> int:
        """Return the number of batches that processed these rows, if ``rows`` are left waiting."""
        if processed < 1 or self.serving_s <= 0:
            return 0
        limit = self.throughputs.batch_rows
        taken = min(rows, limit) if limit else rows
        duration_s = max(LEAST_BATCH_S, self.capacity.fixed_s + taken / self.capacity.rows_per_s)
        return max(1, int(self.serving_s / duration_s))


def _basis(recorded: ArrivalBasis) -> ArrivalBasis:
    """Return how the load is known: a replay's load is the recorded one, even if more may have arrived."""
    return ArrivalBasis.READ if recorded is ArrivalBasis.AT_LEAST else recorded


def _unknown(blank: AppSignals) -> AppSignals:
    return replace(
        blank,
        capacity=None,
        processed_rows_per_s=None,
        backlog_rows=None,
        backlog_growth_rows_per_s=None,
        healthy_batches=0,
        backpressured_ratio=None,
        slot_busy_ratio=None,
        restart_lag_rows=None,
    )


def _share_above(limit: float, begin: float, end: float) -> float:
    """Return the share of time that a value moving evenly from ``begin`` to ``end`` was above a limit."""
    low, high = min(begin, end), max(begin, end)
    if low > limit:
        return 1.0
    return 0.0 if high <= limit else (high - limit) / (high - low)
