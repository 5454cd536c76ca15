"""What arrives now, how it has moved, and what is to be expected.

Where the rate jumped within the period, its mean is of neither rate. The newest third tells more. If the rate jumped
once from b to n, and the share f of the period lies after the jump, then the mean is m = b + f (n - b). For f >= 1/3
the newest third's rate r is n; for less, r - b = 3 (m - b). Hence (m - b) / (r - b) tells the two apart: it is f where
r is the new rate, and 1/3 where r is halfway and n unknown still. A rate that merely fluctuates has its mean near b and
a ratio near 0, which tells it from a jump.

How it has moved is kept as runs of about equal rate. From them come two factors of the present rate, both >= 1:
- ``fluctuation``: where most changes are small and go up and down the rate wanders around a level, and following each
  move would be a reconfiguration for nothing. Room for nine tenths of the time of late ends that. Where changes are
  mostly large, none is kept: it would be paid for and hardly ever used.
- ``ahead``: a rise that a steady trend or a repetition of earlier runs predicts.
A step is sized with them; whether one is due, a rise ahead alone says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from millrace.optimizers.conttune.base_tuner import LEAST_ABILITY
from millrace.optimizers.conttune.job_graph import Job, Operator

MOVE = 0.04
"""Relative change of the rate from which the newest third is believed, where the mean lies between it and before."""
JUMP = 0.1
"""Relative difference of newest third and mean that no ordinary fluctuation makes."""
NEWEST = 1 / 3
"""Newest part of a period whose rate is reported as well."""
TRIFLE = 0.01
"""Share of what an operator can do below which a change of the rate decides nothing, whatever it is beside the rate."""
WHOLE = 0.4
"""Share of the period after a jump from which its newest third, for sure, is all of the new rate."""
SAME = 0.03
"""Rates that differ by less belong to one run."""
MOST_RUNS = 240
RECENT_RUNS = 24
"""Runs that tell how the rate moves of late."""
LEAST_RUNS = 4
NEAR = 0.35
"""A rate within this share above the present one is near; beyond, a step of its own is due."""
USUAL_SHARE = 0.9
"""Share of the time of late that the room covers: what is rarer is worth a step of its own."""
SMALL_CHANGE = 0.25
CALM, TURNS = 0.7, 0.33
"""Shares of small changes and of turns from which the rate is said to wander; noise turns in two of three."""
TREND_EVALUATIONS = 8
"""Latest evaluations that show a trend."""
STEADY = 0.85
"""Share of the rate's variation that a line must explain to be a trend."""
HORIZON, SPAN = 2.0, 14.0
"""Evaluations that a step decided now has to serve for: from the next until the one after it, and for a while."""
MATCHES = 3
"""Runs that must have come again before a repetition is believed."""


def rate_at_end(job: Job, before: float | None) -> float | None:
    """Return the rate that holds at the period's end, rows a second; None if that is not clear yet.

    Args:
        job: The job; with its mean rate.
        before: The rate before the period, rows a second; None if unknown.
    """
    mean, newest = job.app.arrival_rows_per_s, job.app.arrival_recent_rows_per_s
    other = newest if newest is not None else before
    if mean is None or other is None:
        return mean
    if before is None:
        return other  # a first evaluation has nothing to compare with: what came last is the best that is known
    if _is_all_new(before, mean, other):
        return newest
    trifle = TRIFLE * min((o.ability for o in job.sizable if o.ability is not None), default=0.0)
    return mean if abs(mean - other) <= max(JUMP * max(mean, other), trifle) else None


def _is_all_new(before: float, mean: float, newest: float) -> bool:
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
    return replace(
        job,
        app=replace(job.app, arrival_rows_per_s=rate),
        operators=tuple(_of_newest_third(o, factor) for o in job.operators),
    )


def at_mean(job: Job, rate: float) -> Job:
    """Return the job as it is with a mean over many periods as its arrival rate.

    Args:
        job: A job of one operator.
        rate: Rows per second.
    """
    app = replace(job.app, arrival_rows_per_s=rate, arrival_recent_rows_per_s=rate)
    return replace(job, app=app, operators=tuple(replace(o, arrival=rate) for o in job.operators))


def _of_newest_third(operator: Operator, factor: float) -> Operator:
    """Return an operator with what arrives now: as measured over the newest third, or in proportion to the whole."""
    span_s = None if operator.span_s is None else operator.span_s * NEWEST
    if operator.arrival is None:
        return replace(operator, span_s=span_s)
    newest = operator.arrival * factor if operator.recent_arrival is None else operator.recent_arrival
    return replace(operator, arrival=newest, span_s=span_s)


class Run(NamedTuple):
    """Evaluations in a row with about the same rate."""

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
    """Return the factor that covers what the rate does of late, >= 1."""
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
    """Return what a steady rise of the logarithm comes to so many evaluations from now; 1 where there is none.

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
    """Return after how many runs the latest ones came again; None if they did not."""
    for lag in range(2, len(runs) - MATCHES):
        same = 0
        while same + lag < len(runs) and _alike(runs[-1 - same], runs[-1 - same - lag]):
            same += 1
        if same > MATCHES:
            return lag
    return None


def _alike(a: Run, b: Run) -> bool:
    return abs(a.rate - b.rate) <= SAME * max(a.rate, b.rate)
