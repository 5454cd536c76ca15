"""Dhalion's black list: which steps failed, and how long they bar others (its assumptions: :mod:`.dhalion`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optimizers.conttune.job import Job
from optimizers.conttune.stored import mapping, number, whole

RATE_CHANGE = 0.1
"""Relative change of an operator's rate after which a failed step may be tried again."""
MORE_ROWS = 0.02
"""Relative growth of an operator's rate that shows that a step up brought something."""


@dataclass(frozen=True)
class Attempt:
    """A step of one operator: from which p to which, at which input rate (rows a second; None if unknown)."""

    before: int
    after: int
    rate: float | None


Attempts = Mapping[str, Attempt]


def judged(
    job: Job, pressed: Mapping[str, float], made: Attempts, failed: Attempts
) -> tuple[dict[str, Attempt], dict[str, Attempt]]:
    """Return the steps still to be judged, and those that failed and still bar others."""
    open_, bars = dict(made), dict(failed)
    for operator in job.sizable:
        name, rate = operator.name, operator.rate
        if name in bars and _forgotten(bars[name], rate):
            del bars[name]
        step = open_.get(name)
        if step is None or step.before == operator.now:  # none, or not applied yet
            continue
        del open_[name]
        if step.after == operator.now and name in pressed and (step.after < step.before or not _more(step, rate)):
            bars[name] = step
    return open_, bars


def _more(step: Attempt, rate: float | None) -> bool:
    return rate is None or step.rate is None or rate > step.rate * (1 + MORE_ROWS)


def _forgotten(step: Attempt, rate: float | None) -> bool:
    if rate is None or step.rate is None:
        return False
    lower = rate < step.rate * (1 - RATE_CHANGE)
    return lower or (step.after > step.before and rate > step.rate * (1 + RATE_CHANGE))


def read(stored: object) -> dict[str, Attempt]:
    """Return stored steps by operator."""
    found = {}
    for name, value in mapping(stored).items():
        step = mapping(value)
        before, after = whole(step.get("before")), whole(step.get("after"))
        if before and after:
            found[name] = Attempt(before, after, number(step.get("rate"), 0.0))
    return found


def written(attempts: Attempts) -> Mapping[str, Any]:
    """Return steps as a JSON value."""
    return {n: {"before": a.before, "after": a.after, "rate": a.rate} for n, a in sorted(attempts.items())}
