"""The demand on an operator: lambda, and the effects of target, latency goal and backlog.

Symbols:
    lambda   rows per second that arrive
    o(p)     fixed cost of a micro-batch, seconds
    rho      lambda / PA(p)

The paper requires PA(p) >= lambda (Eq. 2). If operators own their slots, p is feasible if
PA(p) >= lambda / target_utilisation. If batches have a fixed cost (``micro_batch``), p is feasible if
rho <= target_utilisation and no row waits longer than max_lag_s. A row waits for a batch and the next one, so under the
default trigger 2 o(p) / (1 - rho) <= max_lag_s (:mod:`millrace.model.row_wait` has triggers with an interval), that is
rho <= u(p) = min(target, 1 - 2 o(p) / max_lag_s), so
    PA(p) >= lambda / u(p)                                                                            (1)
With ``catch_up`` the backlog has to drain in time as well, with the app fully busy if necessary:
    PA(p) >= lambda + excess / catch_up_s                                                             (2)
The greater of both is required, not the sum: room for (1) drains a small backlog by itself.

If a batch holds at most x rows (``maxFilesPerTrigger`` and the like), every x rows cost o(p), however many wait: a rate
r is sustained if x / (o + x / PA) >= r, that is
    PA(p) >= r / (1 - r o / x)                                                                        (3)
With lambda / target for r this is one more bound on the utilisation, u(p) <= target - lambda o / x.

If N rows arrive at once again and again, all of them have to be processed within max_lag_s, of which b = max(o(p), T)
may pass before the next batch begins (T is the trigger's interval):
    PA(p) >= N / (max_lag_s - b - o(p))                                                               (4)
or (3) with r = N / (max_lag_s - b) if a batch holds fewer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from millrace.model import row_wait
from millrace.model.objective import Objective
from millrace.model.signals import AppSignals
from millrace.optimizers.arrays import Floats
from millrace.optimizers.conttune.job_graph import Operator
from millrace.optimizers.conttune.state import OperatorState

LEAST_UTILISATION = 0.05
"""If fixed costs take nearly all of a limited batch's time, slots are sought for this, not infinitely many."""

IDLE_RATIO = 0.1
"""Share of the period that a trigger with an interval leaves idle, from which rows do not wait for slots."""

DRAINED_SHARE = 0.1
"""A backlog that drains by itself within this share of catch_up_s counts as drained."""


@dataclass(frozen=True)
class Demand:
    """Work that has to be processed.

    Attributes:
        rate: lambda, rows per second, >= 0.
        waiting: Rows that wait beyond those that a batch at the planned load leaves behind.
        excess: Waiting rows that were not caused by Millrace's own last restart.
        objective: The owner's.
        fixed_s: o(p) by observed level, seconds.
        micro_batch: Batches have a fixed cost; otherwise only PA(p) >= lambda / target_utilisation is required.
        catch_up: Condition (2).
        batch_rows: x, rows that a batch holds at most; None if it is not limited.
        held_rows: Rows that wait although the app is idle until its next trigger: its batches may not read them.
        trigger_s: Interval of the trigger, seconds; 0 for as fast as possible.
        burst_rows: N, rows that arrive at once again and again; 0 if none do.
    """

    rate: float
    waiting: float
    excess: float
    objective: Objective
    fixed_s: Mapping[int, float] = field(default_factory=dict)
    micro_batch: bool = True
    catch_up: bool = True
    batch_rows: int | None = None
    held_rows: float = 0.0
    trigger_s: float = 0.0
    burst_rows: float = 0.0

    def required(self, parallelism: Sequence[int] | NDArray[np.int_]) -> Floats:
        """Return the least PA that makes each p feasible, rows per second, shape (n,)."""
        return np.array([self.required_at(int(p)) for p in parallelism])

    def required_at(self, parallelism: int, tolerance: float = 0.0) -> float:
        """Return the least PA that makes p feasible, rows per second.

        Args:
            parallelism: p.
            tolerance: Share by which u(p) may be exceeded, as long as the app keeps up, >= 0.
        """
        planned = self.rate / min(1.0, self.highest_utilisation(parallelism) * (1 + tolerance))
        planned = max(planned, self._for_burst(parallelism) / (1 + tolerance))
        if not self.catch_up:
            return planned
        drained = self.rate + self.excess / self.objective.catch_up_s
        return max(planned, drained / max(LEAST_UTILISATION, 1.0 - self._limited(drained, parallelism)))

    def highest_utilisation(self, parallelism: int) -> float:
        """Return u(p), in (0, 1]; the target alone if no utilisation can meet the latency goal."""
        target = self.objective.target_utilisation
        if not self.micro_batch:
            return target
        room = self._room(parallelism)
        limited = max(LEAST_UTILISATION, target - self._limited(self.rate, parallelism))
        return min(target, room, limited) if room > 0 else min(target, limited)

    def throughput(self, ability: float, parallelism: int) -> float:
        """Return the throughput of an app of this ability, rows per second: less if batches are limited."""
        if not self.micro_batch:
            return ability
        return row_wait.throughput(ability, self.fixed_at(parallelism) or 0.0, self.batch_rows)

    def sustainable(self, ability: float, parallelism: int) -> float:
        """Return the highest rate at which an app of this ability meets the latency goal, rows per second."""
        if not self.micro_batch:
            return ability
        fixed_s = self.fixed_at(parallelism) or 0.0
        return row_wait.sustainable(ability, fixed_s, self.batch_rows, self.objective.max_lag_s, self.trigger_s)

    def planned(self, ability: float, parallelism: int) -> float:
        """Return the highest rate for which an app of this ability is planned, rows per second: the inverse of (1)."""
        target = self.objective.target_utilisation
        return min(target * self.throughput(ability, parallelism), self.sustainable(ability, parallelism))

    def longest_wait_s(self, ability: float, parallelism: int) -> float:
        """Return how long a row waits at most in an app of this ability, seconds; infinite if it falls behind."""
        if self.rate > self.throughput(ability, parallelism):
            return math.inf
        batch_s = row_wait.batch_s(self.fixed_at(parallelism) or 0.0, self.rate / ability, self.trigger_s)
        return row_wait.longest_wait_s(batch_s, self.trigger_s)

    def drain_s(self, ability: float, parallelism: int) -> float:
        """Return the seconds until an app of this ability has processed the waiting rows; infinite if never.

        With limited batches, their fixed cost is in the rate that they sustain. Without a limit it is paid once.
        """
        spare = self.throughput(ability, parallelism) - self.rate
        if spare <= 0:
            return math.inf
        once = 0.0 if self.batch_rows or not self.micro_batch else self.fixed_at(parallelism) or 0.0
        return self.waiting / spare + once * ability / spare

    def burst_s(self, ability: float, parallelism: int) -> float:
        """Return the seconds that an app of this ability needs for a burst."""
        if self.batch_rows and self.batch_rows < self.burst_rows:
            return self.burst_rows / self.throughput(ability, parallelism)
        return (self.fixed_at(parallelism) or 0.0) + self.burst_rows / ability

    def needs_more_for_burst(self, ability: float, parallelism: int) -> bool:
        """Return whether an app of this ability is too small because of bursts."""
        return self._for_burst(parallelism) > max(ability, self.rate / self.highest_utilisation(parallelism))

    def _for_burst(self, parallelism: int) -> float:
        """Return the least PA that processes a burst within the latency goal; 0 if none does."""
        fixed_s = self.fixed_at(parallelism) or 0.0
        allowed = self.objective.max_lag_s - max(fixed_s, self.trigger_s)
        if not self.burst_rows or not self.micro_batch or fixed_s >= allowed:
            return 0.0
        if self.batch_rows and self.batch_rows < self.burst_rows:
            rate = self.burst_rows / allowed
            left = 1.0 - self._limited(rate, parallelism)
            return rate / left if left > LEAST_UTILISATION else 0.0
        return self.burst_rows / (allowed - fixed_s)

    def is_attainable(self, parallelism: int) -> bool:
        """Return whether the latency goal can be met at all."""
        return not self.micro_batch or self._room(parallelism) > 0

    def fixed_at(self, parallelism: int) -> float | None:
        """Return o(p) of the nearest level with a known value, seconds; None if there is none."""
        if not self.fixed_s:
            return None
        return self.fixed_s[min(self.fixed_s, key=lambda p: (abs(p - parallelism), p))]

    def is_draining(self, ability: float) -> bool:
        """Return whether a backlog, whatever its cause, keeps an app that sustains this rate busy for a while."""
        spare = max(0.0, ability - self.rate)
        return self.catch_up and self.waiting > DRAINED_SHARE * self.objective.catch_up_s * spare

    def _limited(self, rate: float, parallelism: int) -> float:
        """Return r o / x, the share of time that fixed costs take at a rate; 0 if batches are not limited."""
        if not self.batch_rows or not self.micro_batch:
            return 0.0
        return rate * (self.fixed_at(parallelism) or 0.0) / self.batch_rows

    def _room(self, parallelism: int) -> float:
        fixed_s = self.fixed_at(parallelism) or 0.0
        return row_wait.highest_utilisation(fixed_s, self.objective.max_lag_s, self.trigger_s)


def build_demand(
    app: AppSignals,
    operator: Operator,
    rate: float,
    state: OperatorState,
    objective: Objective,
    *,
    catch_up: bool = True,
    burst_rows: float = 0.0,
) -> Demand:
    """Return the demand on an operator.

    Args:
        app: Signals of its app; an unknown backlog counts as none.
        operator: The operator. If it is the whole app, batches have a fixed cost and stages take turns.
        rate: lambda, rows per second, >= 0.
        state: Memory of its batches.
        objective: The owner's.
        catch_up: Serve the backlog too.
        burst_rows: Rows that arrive at once again and again: they are expected, so they are no excess.
    """
    means = {p: fmean(values) for p, values in state.fixed_s.items()}
    whole = operator.id is None
    plain = Demand(rate, 0.0, 0.0, objective, means, micro_batch=whole, catch_up=catch_up)
    arrival, backlog = app.arrival_rows_per_s or 0.0, float(app.backlog_rows or 0)
    # a trigger keeps rows waiting for as long as its interval
    left = arrival * objective.planned_batch_s(plain.fixed_at(app.slots), app.trigger_s) if whole else 0.0
    waiting, held = max(0.0, backlog - left), 0.0
    if app.trigger_s > 0 and app.busy_ratio is not None and app.busy_ratio < 1 - IDLE_RATIO:
        waiting, held = 0.0, waiting
    excess = max(0.0, waiting - (app.restart_lag_rows or 0) - burst_rows)
    share = rate / arrival if arrival > 0 else 1.0
    return replace(
        plain,
        waiting=waiting * share,
        excess=excess * share,
        batch_rows=state.batch_rows,
        held_rows=held,
        trigger_s=app.trigger_s,
        burst_rows=burst_rows if whole else 0.0,
    )
