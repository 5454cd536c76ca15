"""Dragster's online saddle point, as far as [ContTune]'s text and the idea allow.

Symbols of one operator:
    f(p)    its throughput, learned by a Gaussian process
    lambda  rows a second that it has to process; the constraint is lambda - f(p) <= 0
    eta     dual variable (price) of that constraint, >= 0
    y       the capacity aimed at, rows a second

Each look takes one step of a saddle-point method on L(y, eta) = (y / lambda - 1)^2 / 2 - eta (y / lambda - 1):
    dual    eta <- max(0, eta + step (lambda - f(p)) / lambda), with f(p) as measured: the price rises while the
            operator falls short and decays while it does not (but not in the first look at another lambda: p was
            chosen for the one before)
    primal  y = lambda (1 + eta), and p is the smallest level whose upper confidence bound mu(p) + beta sigma(p) >= y

What is assumed:
    - The process is on f(p) / p, relative to its mean over the observations, over log p: RBF, fixed hyperparameters
      (Dragster assumes that throughput rises with p; a zero-mean process would not). A level is never believed to
      process more than a higher one was measured to.
    - "Separate models for different upstream data rates" (``per_rate``): measurements are remembered by operator and
      rate (:mod:`.prices`), and only those of the present rate train its model. Otherwise H^t trains it.
    - At a rate, a level that has sufficed for ``MAX_LOOKS`` looks is kept.
    - lambda is the true arrival rate, carried through the DAG by this look's flow ratios, though Dragster itself finds
      one bottleneck after the other: it is not to lose for that.
    - The budget on all operators together, Dragster's other long-term constraint, is the bounds'.

Reference:
    Liu, Xu and Lau, "Online resource optimization for elastic stream processing with regret guarantee", ICPP 2022; the
    rival of [ContTune], Section 8.1 ("Online Saddle Point Algorithm").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from include.model.decision import Memory, Proposal
from include.model.deployment import Deployment
from include.model.signals import Signals
from optimizers.conttune.choice import Choice, decided, figure
from optimizers.conttune.history import known
from optimizers.conttune.job import Job, Operator
from optimizers.conttune.reasons import Reason
from optimizers.conttune.rivals.prices import MAX_LOOKS, Notes, read, rounded, seen, written
from optimizers.conttune.rivals.throughput import Point, Points, bounds_over, settled
from optimizers.conttune.tuning import Sizings, Stored, propose
from optimizers.ranges import NOT_NEGATIVE, Allowed, check_fields, parse_fields

NAME = "dragster"

TOP_K = 5
"""Observations averaged per level where H^t trains the model."""


@dataclass(frozen=True)
class Options:
    """How Dragster decides.

    Attributes:
        beta: Width of the upper confidence bound in standard deviations, >= 0.
        step: Step of the dual variable, relative to the share of lambda that is missed, >= 0.
        per_rate: A model for each rate (its paper, as [ContTune] tells it); otherwise one for all.
        decision_thr: Least relative change of an operator's p that is worth a reconfiguration of the job, >= 0.
    """

    beta: float = 1.0
    step: float = 0.5
    per_rate: bool = True
    decision_thr: float = 0.0

    def __post_init__(self) -> None:
        """Refuse values of a wrong type or out of range.

        Raises:
            MillraceError: With the option, its value, the allowed range and the remedy.
        """
        check_fields(self, ALLOWED)


ALLOWED: Mapping[str, Allowed] = {
    "beta": NOT_NEGATIVE,
    "step": NOT_NEGATIVE,
    "decision_thr": NOT_NEGATIVE,
    "per_rate": None,
}


def parse(options: Mapping[str, Any]) -> Options:
    """Return checked options from a spec's ``tuner.options``.

    Raises:
        MillraceError: If an option is unknown, or a value of a wrong type or out of range.
    """
    return parse_fields(Options, options)


class Dragster:
    """Sizes jobs by an online saddle point with Gaussian processes.

    Args:
        options: Its confidence bound, its step, and whether it learns for each rate anew.
    """

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Say which p each operator should have and why, and what to remember until the next look."""
        return propose(NAME, self._tune, signals, current, memory)

    def _tune(self, signals: Signals, job: Job, stored: Stored) -> Sizings:
        notes = read(stored.get("operators"))
        rates = job.rates(job.ratios())
        choices = []
        for operator in job.sizable:
            own = notes.get(operator.name, Notes(0.0, {}))
            choice, notes[operator.name] = self._choose(signals, operator, rates[operator.id], own)
            choices.append(choice)
        found = decided(job, choices, signals.bounds, self.options.decision_thr)
        return found, {"operators": written(notes)}

    def _choose(self, signals: Signals, operator: Operator, rate: float | None, notes: Notes) -> tuple[Choice, Notes]:
        now, ability, at = operator.now or 1, operator.ability, operator.ability_at
        if rate is None or not math.isfinite(rate):
            return Choice(operator, now, None, ability, reason=Reason.RATE_UNKNOWN), notes
        if ability is None or at is None:
            return Choice(operator, now, rate, None, reason=Reason.CAPACITY_UNKNOWN), notes
        notes = seen(notes, rate, at, ability, self.options.step)
        per_rate = self.options.per_rate
        points = notes.by_rate[rounded(rate)] if per_rate else self._history(signals, operator)
        aim = rate * (1 + notes.price)
        if settled(points, now, aim, signals.bounds.min_slots, MAX_LOOKS if per_rate else None):
            return Choice(operator, now, rate, ability), notes
        believed = bounds_over(points, signals.bounds.max_slots, self.options.beta)
        if believed is None:
            return Choice(operator, now, rate, ability, reason=Reason.CAPACITY_UNKNOWN), notes
        mean, upper = believed
        enough = np.flatnonzero(upper >= aim)
        target = int(enough[0]) + 1 if enough.size else signals.bounds.max_slots
        if target == now:
            return Choice(operator, now, rate, ability), notes
        words = {"aim": figure(aim)}
        expected = float(mean[target - 1])
        return Choice(operator, target, rate, ability, expected, Reason.SADDLE_POINT, words), notes

    def _history(self, signals: Signals, operator: Operator) -> Points:
        levels = known(signals.observations, [operator], TOP_K, signals.until)[operator.name]
        return {level.parallelism: Point(level.ability, TOP_K) for level in levels}
