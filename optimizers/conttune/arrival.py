"""The present arrival rate, its history, and the expected rate.

If the rate jumped within the period, its mean is neither rate, and the newest third shows more. If the rate jumped once
from b to n, and the share f of the period is after the jump, then the mean is m = b + f (n - b). For f >= 1/3 the
newest third's rate r is n; for less, r - b = 3 (m - b). The ratio (m - b) / (r - b) separates the two cases: it is f if
r is the new rate, and 1/3 if r is halfway and n still unknown. A rate that only fluctuates has its mean near b and a
ratio near 0.

The history is kept as runs of about equal rate. They give two factors of the present rate, both >= 1:
- ``fluctuation``: if most changes are small and go up and down, the rate wanders around a level, and following each
  move would be a useless reconfiguration. Room for nine tenths of the recent time prevents that. If changes are mostly
  large, no room is kept: it would be paid for and almost never used.
- ``ahead``: a rise that a steady trend or a repetition of earlier runs predicts.
Steps are sized with both; only a rise ahead decides whether a step is due.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from millrace.optimizers.conttune.figures import LEAST_ABILITY
from millrace.optimizers.conttune.job_graph import Job, Operator

MOVE = 0.04
"""Relative change of the rate from which the newest third is used, if the mean is between it and the rate before."""
JUMP = 0.1
"""Relative difference of newest third and mean that no ordinary fluctuation makes."""
NEWEST = 1 / 3
"""Newest part of a period whose rate is also reported."""
TRIFLE = 0.01
"""Share of an operator's ability below which a change of the rate is ignored, however large relative to the rate."""
WHOLE = 0.4
"""Share of the period after a jump from which its newest third is certainly all at the new rate."""
SAME = 0.03
"""Rates that differ by less belong to one run."""
MOST_RUNS = 240
RECENT_RUNS = 24
"""Runs that show how the rate has moved recently."""
LEAST_RUNS = 4
NEAR = 0.35
"""A rate up to this share above the present one is near; a higher one needs a step of its own."""
USUAL_SHARE = 0.9
"""Share of the recent time that the room covers: rarer rates are worth a step of their own."""
SMALL_CHANGE = 0.25
CALM, TURNS = 0.7, 0.33
"""Shares of small changes and of turns from which the rate counts as wandering; noise turns in two of three."""
TREND_EVALUATIONS = 8
"""Latest evaluations that show a trend."""
STEADY = 0.85
"""Share of the rate's variation that a line must explain to be a trend."""
HORIZON, SPAN = 2.0, 14.0
"""Evaluations ahead that a step decided now has to serve: until the one after the next, and for a while."""
MATCHES = 3
"""Runs that must have repeated before a repetition is trusted."""


def rate_at_end(job: Job, before: float | None) -> float | None:
    """Return the rate at the period's end, rows per second; None if that is not clear yet.

    Args:
        job: The job; with its mean rate.
        before: The rate before the period, rows per second; None if unknown.
    """
    mean, newest = job.app.arrival_rows_per_s, job.app.arrival_recent_rows_per_s
    other = newest if newest is not None else before
    if mean is None or other is None:
        return mean
    if before is None:
        return other  # a first evaluation has nothing to compare with: the newest rate is the best estimate
    if _is_all_new(before, mean, other):
        return newest
    trifle = TRIFLE * min((o.ability for o in job.sizable if o.ability is not None), default=0.0)
    return mean if abs(mean - other) <= max(JUMP * max(mean, other), trifle) else None


def _is_all_new(before: float, mean: float, newest: float) -> bool:
    """Return whether the rate jumped, and the newest third is all at the new rate."""
    move = newest - before
    return abs(move) > MOVE * max(newest, before) and WHOLE <= (mean - before) / move < 1


def at_rate(job: Job, rate: float) -> Job:
    """Return the job with another arrival rate than the period's mean.

    Args:
        job: The job; with its mean rate.
        rate: Present arrival rate, rows per second.
    """
    mean = job.app.arrival_rows_per_s
    if mean is None or mean == rate:
        return job
    factor = rate / mean if mean > 0 else 1.0
    return replace(
        job,
        app=replace(job.app, arrival_rows_per_s=rate),
        operators=tuple(_of_newest_third(o, factor) for o in job.operators),
    )


def at_mean(job: Job, rate: float) -> Job:
    """Return the job with a mean over many periods as its arrival rate.

    Args:
        job: A job of one operator.
        rate: Rows per second.
    """
    app = replace(job.app, arrival_rows_per_s=rate, arrival_recent_rows_per_s=rate)
    return replace(job, app=app, operators=tuple(replace(o, arrival=rate) for o in job.operators))


def _of_newest_third(operator: Operator, factor: float) -> Operator:
    """Return an operator with its present arrival: as measured over the newest third, or in proportion to the whole."""
    span_s = None if operator.span_s is None else operator.span_s * NEWEST
    if operator.arrival is None:
        return replace(operator, span_s=span_s)
    newest = operator.arrival * factor if operator.recent_arrival is None else operator.recent_arrival
    return replace(operator, arrival=newest, span_s=span_s)


class Run(NamedTuple):
    """Consecutive evaluations with about the same rate."""

    rate: float
    evaluations: int


@dataclass(frozen=True)
class RateHistory:
    """The runs, newest last, and the rates of the latest evaluations."""

    runs: tuple[Run, ...] = ()
    latest: tuple[float, ...] = ()

    def with_rate(self, rate: float) -> RateHistory:
        """Return the history after one more evaluation."""
        latest = (*self.latest, rate)[-TREND_EVALUATIONS:]
        if self.runs:
            last = self.runs[-1]
            if abs(rate - last.rate) <= SAME * max(rate, last.rate):
                mean = (last.rate * last.evaluations + rate) / (last.evaluations + 1)
                return RateHistory((*self.runs[:-1], Run(mean, last.evaluations + 1)), latest)
        return RateHistory((*self.runs, Run(rate, 1))[-MOST_RUNS:], latest)


def fluctuation(history: RateHistory) -> float:
    """Return the factor that covers the recent changes of the rate, >= 1."""
    recent = history.runs[-RECENT_RUNS:]
    if len(recent) <= LEAST_RUNS or recent[-1].rate <= 0:
        return 1.0
    moves = [math.log(b.rate / a.rate) for a, b in pairwise(recent) if min(a.rate, b.rate) >= LEAST_ABILITY]
    if not moves or sum(abs(m) <= math.log1p(SMALL_CHANGE) for m in moves) < CALM * len(moves):
        return 1.0
    turns = sum(a * b < 0 for a, b in pairwise(moves))
    if turns < TURNS * (len(moves) - 1):
        return 1.0
    now = recent[-1].rate
    near = sorted(r for r in recent if r.rate <= now * (1 + NEAR))
    spent, all_evaluations = 0, sum(run.evaluations for run in near)
    for rate, evaluations in near:
        spent += evaluations
        if spent >= USUAL_SHARE * all_evaluations:
            return max(1.0, rate / now)
    return 1.0


def ahead(history: RateHistory) -> tuple[float, float]:
    """Return the factors that cover a rise expected until the evaluation after the next, and for a while; both >= 1."""
    if not history.latest or history.latest[-1] < LEAST_ABILITY:
        return 1.0, 1.0
    again = _repetition(history)
    soon, later = (max(1.0, _trend(history, distance), again) for distance in (HORIZON, SPAN))
    return soon, max(soon, later)


def _trend(history: RateHistory, distance: float) -> float:
    """Return the factor of a steady rise of the logarithm after this many evaluations; 1 if there is none.

    A straight line explains a steady rise, and three quarters of a single jump at most.
    """
    if len(history.latest) < TREND_EVALUATIONS or min(history.latest) < LEAST_ABILITY:
        return 1.0
    x, y = np.arange(TREND_EVALUATIONS, dtype=float), np.log(history.latest)
    slope, base = np.polyfit(x, y, 1)
    spread = float(np.sum((y - y.mean()) ** 2))
    left = float(np.sum((y - base - slope * x) ** 2))
    if slope <= 0 or left > (1 - STEADY) * spread:
        return 1.0
    return math.exp(base + slope * (TREND_EVALUATIONS - 1 + distance) - y[-1])


def _repetition(history: RateHistory) -> float:
    runs, lag = history.runs, find_repetition(history.runs)
    if lag is None or runs[-1 - lag].evaluations - runs[-1].evaluations >= HORIZON:
        return 1.0
    return runs[-lag].rate / runs[-1].rate


def find_repetition(runs: Sequence[Run]) -> int | None:
    """Return after how many runs the latest ones repeated; None if they did not."""
    for lag in range(2, len(runs) - MATCHES):
        same = 0
        while same + lag < len(runs) and _alike(runs[-1 - same], runs[-1 - same - lag]):
            same += 1
        if same > MATCHES:
            return lag
    return None


def _alike(a: Run, b: Run) -> bool:
    return abs(a.rate - b.rate) <= SAME * max(a.rate, b.rate)
