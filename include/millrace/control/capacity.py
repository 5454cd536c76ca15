"""Fit an app's capacity from its micro-batches.

Symbols, per batch i that really ran at parallelism p:
    d_i  duration, seconds;  x_i  rows;  u_ik  useful time of operator k, summed over its tasks, waits included;
    t_ik tasks of operator k;  tau_i = min_k u_ik / t_ik  an upper bound on the cost of starting a task (seen in the
    lightest operator; 0 if there is only one);
    w_i = sum_k g_k (u_ik - a_ik t_ik) / p_ik  time that the app's slots worked on rows: p tasks share u evenly, or a
    stage with state takes g_k times as long, if its partitions were measured.
    a_ik cost of a task of operator k without rows: tau_i, and more if the operator keeps state (below).
    o(p) fixed cost of a batch, seconds;  PA(p) throughput of the whole app, rows per second;  s(p) = 1 / PA(p).

Model:
    d_i = o(p) + x_i s(p) + e_i                                                                       (1)
    The stages of a batch take turns on the app's slots, so their times add up. An operator's part of the
    row-dependent time is x_i / PA_k(p) = u_ik / p (PA_k = p x / u: ContTune, Section 3), so
    x_i s(p) = c w_i,                                                                                 (2)
    where c >= 1 covers what no operator reports: scheduling, uneven tasks, writing. With (2) in (1)
    d_i = o + c w_i + e_i                                                                             (3)

Sources of information, strongest first:
    1. Rows that vary at one p, and not only with a drift of o(p): (1) alone gives o(p) and s(p).
    2. (3) over the other levels together, to count no batch twice. w varies with p even if rows do not, so o and c
       become known; then s(p) = c median(w_i / x_i). This is a prior in (1): it decides if rows barely vary, and is
       outvoted if they do. Its error includes the uncertainty of the tasks' own cost. With few rows per batch, useful
       time is mostly that cost (above all a state store's) and says little about rows.
    3. o(p) is mostly planning, log and commit, so it is similar at every p: another prior.
    4. Batches without rows cost a little less than o, because they read nothing: a prior, not points of the line. The
       same holds for batches with so few rows that most of their tasks got none: what those took is no cost of a row.
Without any of these (one level, equal rows, no useful time) o and s cannot be separated, and there is no Capacity.

Rows / duration (o counted as work) and p x / u of the heaviest stage (all else ignored) are both wrong by 2x.
How busy the app is says nothing: under the default trigger, batches run back to back at any load.
A cost that changed (long collections, a slow sink) shows in consecutive batches; earlier batches no longer count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median, median_low

import numpy as np

from millrace.control.robust_line import Array, Line, Prior, fit_line, slope_given_past, weighted_median
from millrace.model.signals import Capacity
from millrace.model.telemetry import STATEFUL, BatchMetrics, OperatorBatch

MIN_BATCHES = 3
"""Fewest healthy batches with rows that make a level: any two points fit a line."""
MAX_BATCHES = 200
"""Newest batches of a level that are fitted: enough for 1 %, few enough to keep an evaluation fast."""
MAX_RELATIVE_ERROR = 0.5
"""A throughput with a larger relative error counts as unknown."""
MOST_WORK_RATIO = 2.0
"""Parallel stages may work longer than their batch lasts, up to this factor; beyond it the figure is no useful time."""
STORE_S, STATE_ROW_S = 0.3, 0.001
"""Spread of the cost of opening and committing a store, seconds per task, and of a state, seconds per row."""
START_SPREAD = 0.3
"""Relative error of tau, an upper bound: a value spread evenly between 0 and tau has this standard deviation."""
COVERAGE = Prior(1.02, 0.06)
"""c of equation (3) before anything is known of an app: 1.00 to 1.02 on the built-in pipeline at p = 1, 2 and 4."""
CLEAR = 2.5
"""Standard errors beyond which data contradicts a prior."""
DRIFT_SHARE = 0.25
"""Up to this intercept, as a share of a usual batch, a line may be one to the origin, caused by a drift."""
ROWS_PER_TASK, WORK_SHARE = 2.0, 1 / 3
"""Below both, rows per task and work as a share of the batch, a batch is as good as empty."""
CHANGED_COST = 1.5
"""The cost has changed if the durations of all of the newest :data:`MIN_BATCHES` batches differ by this factor from
what earlier batches predict: a collector pauses, a sink is slow, or rows are different."""
HELD = 1e-6
"""Relative error of a slope that data must not move."""
COVERAGE_SPREAD = 0.1
"""Relative difference of c between levels."""
FIXED_SPREAD = 0.2
"""Relative difference of o between levels, and between batches with and without rows."""


@dataclass(frozen=True)
class Uneven:
    """How much longer stages with state take than if all slots shared their work evenly.

    Without it, useful time would show the throughput of an even spread, which few batches cannot outvote.

    Attributes:
        slots: Slots at which it was measured.
        ratio: g, >= 1.
    """

    slots: int
    ratio: float = 1.0

    def of(self, batch: BatchMetrics, operator: OperatorBatch) -> float:
        """Return g of an operator in a batch."""
        return self.ratio if batch.slots == self.slots and STATEFUL.search(operator.name) else 1.0


EVEN = Uneven(0)


@dataclass(frozen=True)
class _Level:
    """Batches that ran at one p: rows x (n,), durations d (n,), work w (n,) and its error (n,), both NaN if unknown.

    If other queries share the slots, the uncorrected rest of the delay that they cause is a drift, too.
    """

    x: Array
    d: Array
    w: Array
    error: Array
    shared: bool = False

    def part(self, begin: int, end: int) -> _Level:
        """Return the batches from ``begin`` on, before ``end``."""
        return _Level(self.x[begin:end], self.d[begin:end], self.w[begin:end], self.error[begin:end], self.shared)

    @property
    def work_per_row(self) -> Prior | None:
        """Work per row, w / x, and its error, seconds; None if too few batches show it."""
        known = np.isfinite(self.w)
        if known.sum() < MIN_BATCHES:
            return None
        x = self.x[known]
        return Prior(weighted_median(self.w[known] / x, x), weighted_median(self.error[known] / x, x))


def fit(batches: Sequence[BatchMetrics], *, shared: bool = False, uneven: Uneven = EVEN) -> Mapping[int, Capacity]:
    """Return the fitted capacity at each p that really ran.

    Args:
        batches: Healthy batches of one query in the order they ran (:func:`millrace.control.batch_history.healthy`),
            at any number of levels. Those that are as good as empty count only for the fixed cost.
        shared: Whether other queries use the same slots, too.
        uneven: How unevenly the present slots share the work of stages with state.
    """
    full, empty = list[BatchMetrics](), list[float]()
    for batch in batches:
        if not is_as_good_as_empty(batch):
            full.append(batch)
        elif batch.duration_s > 0:
            empty.append(batch.duration_s)
    levels = {p: _of_present_cost(replace(level, shared=shared)) for p, level in _levels(full, uneven).items()}
    alone = {p: _line(level, _empty_prior(empty), None) for p, level in levels.items()}
    capacities = {}
    for p, level in levels.items():
        # leave out its own batches, or they would count twice: as points and as a prior
        others = [line for q, line in alone.items() if q != p and line is not None]
        pooled = _pooled([other for q, other in levels.items() if q != p], _empty_prior(empty))
        line = _line(level, _fixed(pooled, empty, others), pooled)
        if line is None or not line.slope_error <= MAX_RELATIVE_ERROR * line.slope:
            continue
        rate = 1 / line.slope
        capacity = Capacity(p, line.intercept, rate, rate * line.slope_error / line.slope, len(level.x))
        if all(map(math.isfinite, (capacity.fixed_s, rate, capacity.rows_per_s_error))):
            capacities[p] = capacity
    return capacities


def heaviest(batch: BatchMetrics) -> OperatorBatch | None:
    """Return the operator with the most useful time, whose stage decides the p that really ran; None if unknown."""
    known = [o for o in batch.operators if ran_at(o, batch.slots) is not None]
    return max(known, key=lambda o: o.useful_s or 0.0, default=None)


def ran_at(operator: OperatorBatch, slots: int) -> int | None:
    """Return how many tasks of an operator really ran at once, min(tasks, slots); None if unknown."""
    p = operator.p if operator.p is not None else operator.tasks
    return None if p is None or min(p, slots) < 1 else min(p, slots)


def parallelism(batch: BatchMetrics) -> int | None:
    """Return the p that a batch really ran at; None if unknown."""
    operator = heaviest(batch)
    return None if operator is None else ran_at(operator, batch.slots)


def task_cost(operator: OperatorBatch, tasks: int, tau: float) -> Prior:
    """Return a, the seconds that a task of an operator takes without rows, and its error.

    A stateful task opens and commits a store, whatever the store holds. How much of the useful time that takes follows
    from the usual size of both parts: u = a t + b x with a ~ N(tau, STORE_S) per task and b ~ N(0, STATE_ROW_S) per row
    gives the most likely a. With few rows nearly all of u is a; with many rows almost none is.
    """
    useful, rows = operator.useful_s or 0.0, operator.rows_in
    if not STATEFUL.search(operator.name) or not rows:
        return Prior(tau, START_SPREAD * tau)
    of_tasks, of_rows = (tasks * STORE_S) ** 2, (rows * STATE_ROW_S) ** 2
    share = of_tasks / (of_tasks + of_rows)
    a = tau + max(0.0, useful - tau * tasks) / tasks * share
    return Prior(a, math.hypot(START_SPREAD * tau, math.sqrt(share * of_rows) / tasks))


def is_as_good_as_empty(batch: BatchMetrics) -> bool:
    """Return whether a batch has no rows, or so few that its tasks' own cost hides theirs."""
    if batch.rows_in == 0:
        return True
    busiest = heaviest(batch)
    if busiest is None or batch.rows_in >= ROWS_PER_TASK * (busiest.tasks or ran_at(busiest, batch.slots) or 1):
        return False
    spent = work(batch)
    return spent is not None and spent.rows_s < WORK_SHARE * batch.duration_s


@dataclass(frozen=True)
class Work:
    """How slots spent a batch: seconds on rows (w), seconds that tasks took without rows, and the error of both."""

    rows_s: float
    starts_s: float
    error_s: float


def work(batch: BatchMetrics, uneven: Uneven = EVEN) -> Work | None:
    """Return how the slots spent a batch; None if no operator reported it, or it is more than the batch can hold."""
    known = [
        (o, o.useful_s, o.tasks or p, p / uneven.of(batch, o))
        for o in batch.operators
        if (p := ran_at(o, batch.slots)) is not None and o.useful_s is not None and 0 < o.useful_s < math.inf
    ]
    tau = min((u / t for _, u, t, _ in known), default=0.0) if len(known) > 1 else 0.0
    costs = [(task_cost(o, t, tau), t / p) for o, _, t, p in known]
    starts_s = sum(cost.mean * waves for cost, waves in costs)
    error_s = math.hypot(*(cost.error * waves for cost, waves in costs))
    rows_s = sum(u / p for _, u, _, p in known) - starts_s
    possible = rows_s > 0 and rows_s + starts_s <= MOST_WORK_RATIO * batch.duration_s
    return Work(rows_s, starts_s, error_s) if possible else None


def _levels(batches: Sequence[BatchMetrics], uneven: Uneven) -> dict[int, _Level]:
    rows: dict[int, list[tuple[float, float, float, float]]] = {}
    for batch in batches:
        p = parallelism(batch)
        if p is not None and batch.rows_in > 0 and batch.duration_s > 0:
            spent = work(batch, uneven) or Work(math.nan, math.nan, math.nan)
            rows.setdefault(p, []).append((batch.rows_in, batch.duration_s, spent.rows_s, spent.error_s))
    return {
        p: _Level(*np.array(of_level[-MAX_BATCHES:], dtype=float).T)
        for p, of_level in sorted(rows.items())
        if len(of_level) >= MIN_BATCHES
    }


def _of_present_cost(level: _Level) -> _Level:
    """Return the batches since their cost last changed; all of them if it did not."""
    newest = len(level.x) - MIN_BATCHES
    before = _line(level.part(0, newest), None, None) if newest >= MIN_BATCHES else None
    if before is None:
        return level
    ratio = level.d / (before.intercept + before.slope * level.x)
    for changed in (ratio > CHANGED_COST, ratio < 1 / CHANGED_COST):
        if changed[newest:].all():
            unchanged = np.flatnonzero(~changed)
            return level.part(int(unchanged[-1]) + 1 if len(unchanged) else newest, len(level.x))
    return level


def _pooled(levels: Sequence[_Level], fixed: Prior | None) -> Line | None:
    """Return equation (3) over some levels: intercept o, slope c; None if too few batches show it."""
    if not levels:
        return None
    w = np.concatenate([level.w for level in levels])
    d = np.concatenate([level.d for level in levels])
    known = np.isfinite(w)
    if known.sum() < MIN_BATCHES:
        return None
    return _fit(w[known], d[known], fixed, COVERAGE, drifts=levels[0].shared)


def _line(level: _Level, fixed: Prior | None, pooled: Line | None) -> Line | None:
    """Return equation (1) at one level, with what other levels show of c."""
    unit = level.work_per_row
    if unit is None:
        return fit_line(level.x, level.d, fixed)
    c = COVERAGE
    if pooled is not None:
        c = Prior(pooled.slope, math.hypot(pooled.slope_error, COVERAGE_SPREAD * pooled.slope))
    error = math.hypot(c.error / c.mean, unit.error / unit.mean)
    slope = c.mean * unit.mean
    return _fit(level.x, level.d, fixed, Prior(slope, error * slope), drifts=level.shared)


def _fit(x: Array, y: Array, fixed: Prior | None, slope: Prior, *, drifts: bool) -> Line | None:
    """Return the line with a prior of its slope, or without it if the data clearly contradicts the prior.

    Each batch reads what arrived during the batch before. While o drifts, as on a machine that others use at times,
    rows follow durations, and the line through them leads to the origin with a slope of 1 / lambda, whatever a row
    costs. If the data's line could be such a line, or batches are known to drift, only what is new in the rows counts.
    """
    free = fit_line(x, y, fixed)
    if free is None or not _contradicts(free.slope, free.slope_error, slope):
        return fit_line(x, y, fixed, slope)
    if not drifts and free.intercept > DRIFT_SHARE * float(np.median(y)):
        return free
    innovation = slope_given_past(x, y)
    if innovation is not None and _contradicts(innovation.mean, innovation.error, slope):
        return free
    line = fit_line(x, y, fixed, Prior(slope.mean, HELD * slope.mean))
    return None if line is None else replace(line, slope_error=slope.error)


def _contradicts(value: float, error: float, prior: Prior) -> bool:
    return abs(value - prior.mean) > CLEAR * math.hypot(error, prior.error)


def _fixed(pooled: Line | None, empty: Sequence[float], others: Sequence[Line]) -> Prior | None:
    """Return what is known of o(p) without the level's own batches with rows."""
    known = [_spread(Prior(line.intercept, line.intercept_error)) for line in others]
    if pooled is not None:
        known.append(_spread(Prior(pooled.intercept, pooled.intercept_error)))
    if (prior := _empty_prior(empty)) is not None:
        known.append(prior)
    known = [k for k in known if k.error > 0]
    # use the surest alone: they share batches, so together they would seem surer than they are
    return min(known, key=lambda k: k.error, default=None)


def _empty_prior(empty: Sequence[float]) -> Prior | None:
    return _spread(Prior(median(empty), 0.0)) if empty else None


def _spread(prior: Prior) -> Prior:
    return Prior(prior.mean, math.hypot(prior.error, FIXED_SPREAD * prior.mean))


def typical_parallelism(batches: Sequence[BatchMetrics]) -> int | None:
    """Return the median p of the batches with rows (a level that really ran); None if unknown."""
    known = [p for p in (parallelism(b) for b in batches if b.rows_in > 0) if p is not None]
    return median_low(known) if known else None
