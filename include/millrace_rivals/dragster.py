"""Dragster's online saddle point, as far as [ContTune]'s text and the idea allow.

Symbols of one operator:
    f(p)    its throughput, learned by a Gaussian process
    lambda  rows per second that it has to process; the constraint is lambda - f(p) <= 0
    eta     dual variable (price) of that constraint, >= 0
    y       target capacity, rows per second

Each evaluation takes one step of a saddle-point method on L(y, eta) = (y / lambda - 1)^2 / 2 - eta (y / lambda - 1):
    dual    eta <- max(0, eta + step (lambda - f(p)) / lambda), with f(p) as measured: the price rises while the
            operator falls short and decays while it does not (but not in the first evaluation at another lambda:
            p was chosen for the previous one)
    primal  y = lambda (1 + eta), and p is the smallest level whose upper confidence bound mu(p) + beta sigma(p) >= y

Assumptions:
    - The process is on f(p) / p, relative to its mean over the observations, over log p: RBF, fixed hyperparameters
      (Dragster assumes that throughput rises with p; a zero-mean process would not). A level never counts as
      processing more than a higher one was measured to.
    - "Separate models for different upstream data rates" (``per_rate``): measurements are remembered by operator and
      rate, and only those of the present rate train its model. Otherwise H^t trains it.
    - At a rate, a level that has been enough for ``MEAN_OF`` evaluations is kept.
    - lambda is the true arrival rate, carried through the DAG by this evaluation's flow ratios, though Dragster itself
      finds one bottleneck after the other: it should not lose because of that.
    - The budget on all operators together, Dragster's other long-term constraint, is the bounds'.

Reference:
    Liu, Xu and Lau, "Online resource optimization for elastic stream processing with regret guarantee", ICPP 2022; the
    rival of [ContTune], Section 8.1 ("Online Saddle Point Algorithm").
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from millrace.model.objective import Bounds
from millrace.model.signals import Signals
from millrace.optimizers.api import Options
from millrace.optimizers.arrays import Floats
from millrace.optimizers.conttune.base_tuner import AppMemory, BaseTuner, Sizings
from millrace.optimizers.conttune.job_graph import Job, Operator
from millrace.optimizers.conttune.messages import Reason, format_number
from millrace.optimizers.memory import items, mapping, number, whole
from millrace_rivals.carried_rates import carried_rates, measured_ratios
from millrace_rivals.conttune.history import levels_by_operator
from millrace_rivals.messages import RivalReason
from millrace_rivals.sizing import Choice, size_job

TOP_K = 5
"""Observations averaged per level if H^t trains the model."""
RATE_STEP = 0.05
"""Rates that differ by less than about this share count as the same."""
MAX_RATES = 50
"""Most recent rates that are remembered per operator."""
MAX_PRICE = 1.0
"""Highest price: aiming at twice the rate is enough, whatever was missed."""
MEAN_OF = 5
"""Evaluations that a level's mean remembers."""
RESIDUAL_SD, LENGTH, NOISE_SD = 0.1, 1.0, 0.02
"""Of f(p) / p relative to its mean: standard deviation of the process, its length in log p, noise per measurement."""


class DragsterOptions(Options):
    """How Dragster decides.

    Attributes:
        beta: Width of the upper confidence bound in standard deviations, >= 0.
        step: Step of the dual variable, relative to the share of lambda that is missed, >= 0.
        per_rate: A model for each rate (as [ContTune] describes Dragster's paper); otherwise one for all.
        decision_thr: Least relative change of an operator's p that is worth a reconfiguration of the job, >= 0.
    """

    beta: float = Field(1.0, ge=0)
    step: float = Field(0.5, ge=0)
    per_rate: bool = True
    decision_thr: float = Field(0.0, ge=0)


class Dragster(BaseTuner[DragsterOptions]):
    """Sizes jobs by an online saddle point with Gaussian processes."""

    name = "dragster"
    Options = DragsterOptions

    def tune(self, signals: Signals, job: Job, memory: AppMemory) -> Sizings:
        """Decide on one job."""
        stored = mapping(memory.get("operators"))
        by_name = {name: OperatorMemory.read(value) for name, value in stored.items()}
        rates = carried_rates(job, measured_ratios(job))
        choices = []
        for operator in job.sizable:
            before = by_name.get(operator.name, OperatorMemory())
            choice, by_name[operator.name] = self._choose(signals, operator, rates[operator.id], before)
            choices.append(choice)
        sizings = size_job(job, choices, signals.bounds, self.options.decision_thr)
        return sizings, {"operators": {name: of.to_json() for name, of in sorted(by_name.items())}}

    def _choose(
        self, signals: Signals, operator: Operator, rate: float | None, memory: OperatorMemory
    ) -> tuple[Choice, OperatorMemory]:
        now, ability, at = operator.now or 1, operator.ability, operator.ability_at
        if rate is None or not math.isfinite(rate):
            return Choice(operator, now, None, ability, reason=Reason.RATE_UNKNOWN), memory
        if ability is None or at is None:
            return Choice(operator, now, rate, None, reason=Reason.CAPACITY_UNKNOWN), memory
        memory = memory.with_measurement(rate, at, ability, self.options.step)
        per_rate = self.options.per_rate
        points = memory.by_rate[rate_name(rate)] if per_rate else self._history(signals, operator)
        aim = rate * (1 + memory.price)
        stay = Choice(operator, now, rate, ability)
        if _suffices(points, now, aim, signals.bounds, MEAN_OF if per_rate else None):
            return stay, memory
        bounds = confidence_bounds(points, signals.bounds.max_slots, self.options.beta)
        if bounds is None:
            return Choice(operator, now, rate, ability, reason=Reason.CAPACITY_UNKNOWN), memory
        mean, upper = bounds
        target = next((p for p in signals.bounds.levels if upper[p - 1] >= aim), signals.bounds.max_slots)
        if target == now:
            return stay, memory
        expected, details = float(mean[target - 1]), {"aim": format_number(aim)}
        return Choice(operator, target, rate, ability, expected, RivalReason.SADDLE_POINT, details), memory

    def _history(self, signals: Signals, operator: Operator) -> Points:
        levels = levels_by_operator(signals.observations, [operator], TOP_K, signals.until)[operator.name]
        return {level.parallelism: Point(level.ability, TOP_K) for level in levels}


class Point(NamedTuple):
    """Knowledge of one level: mean ability, rows per second, and its number of evaluations."""

    ability: float
    evaluations: int = 1


Points = Mapping[int, Point]
"""By level."""


def confidence_bounds(points: Points, p_max: int, beta: float) -> tuple[Floats, Floats] | None:
    """Return mean and upper confidence bound of f over p = 1..p_max, rows per second, shape (p_max,).

    None if floating point cannot distinguish the points from each other or from zero.

    Args:
        points: At least one.
        p_max: >= 1.
        beta: Width of the bound.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    levels = np.array(sorted(points), dtype=float)
    ability = np.array([points[int(p)].ability for p in levels])
    noise = np.array([NOISE_SD**2 / points[int(p)].evaluations for p in levels])
    with np.errstate(all="ignore"):
        unit = float(np.mean(ability / levels))
        relative = ability / levels / unit - 1
    if not np.isfinite(relative).all():
        return None
    kernel = ConstantKernel(RESIDUAL_SD**2, "fixed") * RBF(LENGTH, "fixed")
    process = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None)
    p = np.arange(1, p_max + 1, dtype=float)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        process.fit(np.log(levels).reshape(-1, 1), relative)
        mu, sigma = process.predict(np.log(p).reshape(-1, 1), return_std=True)
        mean, upper = p * unit * (1 + mu), p * unit * (1 + mu + beta * sigma)
        return mean, np.minimum(upper, _ceiling(levels, ability, noise, p, beta))


def _ceiling(levels: Floats, ability: Floats, noise: Floats, p: Floats, beta: float) -> Floats:
    """Return the most that each p processes: the bound of the nearest measured level at or above it."""
    measured = ability * (1 + beta * np.sqrt(noise))
    return np.array([min(measured[levels >= q], default=math.inf) for q in p])


def _suffices(points: Points, now: int, aim: float, bounds: Bounds, evaluations: int | None = None) -> bool:
    """Return whether no model is needed: the present level reaches the aim, and no lower one is left to try.

    Args:
        points: The measured levels.
        now: The present level.
        aim: Target capacity, rows per second.
        bounds: Allowed levels.
        evaluations: Evaluations of the present level after which no lower one is tried any more; None for never.
    """
    here, below = points.get(now), points.get(now - bounds.step)
    if here is None or here.ability < aim:
        return False
    if now == bounds.min_slots or (evaluations is not None and here.evaluations >= evaluations):
        return True
    return below is not None and below.ability * (1 + 2 * NOISE_SD) < aim


def rate_name(rate: float) -> str:
    """Return the name under which measurements at a rate are stored."""
    return str(round(math.log1p(rate) / math.log1p(RATE_STEP)))


@dataclass(frozen=True)
class OperatorMemory:
    """Memory of one operator: its price, and the measurements at each rate, the last seen rate last."""

    price: float = 0.0
    by_rate: Mapping[str, Points] = field(default_factory=dict)

    def with_measurement(self, rate: float, p: int, ability: float, step: float) -> OperatorMemory:
        """Return the memory after an evaluation: the dual step, and one more measurement at this rate.

        The first evaluation at another rate takes no dual step: its shortfall says nothing about a p chosen for that
        rate.

        Args:
            rate: lambda, rows per second, >= 0.
            p: The level that was measured.
            ability: f(p), rows per second, > 0.
            step: Step of the dual variable.
        """
        name, price = rate_name(rate), self.price
        if name == next(reversed(list(self.by_rate)), None):  # p was chosen for this rate
            missed = (rate - ability) / rate if rate > 0 else -1.0
            price = min(MAX_PRICE, max(0.0, price + step * max(missed, -1.0)))
        points = dict(self.by_rate.get(name, {}))
        before = points.get(p, Point(ability, 0))
        n = min(before.evaluations + 1, MEAN_OF)
        points[p] = Point(before.ability + (ability - before.ability) / n, n)
        others = [(other, measured) for other, measured in self.by_rate.items() if other != name]
        return OperatorMemory(price, {**dict(others[-(MAX_RATES - 1) :]), name: points})

    def to_json(self) -> Mapping[str, Any]:
        """Return the memory as a JSON value."""
        by_rate = [
            [rate, [[p, *point] for p, point in sorted(points.items())]] for rate, points in self.by_rate.items()
        ]
        return {"price": self.price, "by_rate": by_rate}

    @classmethod
    def read(cls, stored: object) -> OperatorMemory:
        """Return a stored memory, as far as it is readable."""
        value = mapping(stored)
        pairs = [pair for entry in items(value.get("by_rate")) if len(pair := items(entry)) == 2]
        by_rate = {str(rate): points for rate, entry in pairs if (points := _points(entry))}
        return cls(min(number(value.get("price"), 0.0) or 0.0, MAX_PRICE), by_rate)


def _points(stored: object) -> Points:
    points = {}
    for value in items(stored):
        match items(value):
            case (p, ability, n) if whole(p) and (number(ability, 0.0) or 0.0) > 0 and whole(n):
                points[whole(p)] = Point(float(ability), whole(n))
    return points
