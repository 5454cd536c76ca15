"""Memory of flow between evaluations, as a JSON value; unreadable parts count as missing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

from millrace.model.signals import AppSignals
from millrace.optimizers.conttune.arrival import RateHistory, Run
from millrace.optimizers.conttune.course import Course, Span
from millrace.optimizers.conttune.drift import WITNESSES, Drift, Shift
from millrace.optimizers.conttune.figures import is_possible
from millrace.optimizers.conttune.ratios import Ratios, ratios_to_json, read_ratios
from millrace.optimizers.memory import items, mapping, number, whole

SAME_RATE = 0.05
"""A rate that differs by less than this from the rate of the last step counts as the same."""
DEARER = 2.0
"""Fewer tasks make no batch costlier: a lower level whose costs all exceed the higher one's this much is dropped."""
DISPROVED = 1.5
"""A batch with more than this multiple of a full batch's rows disproves the limit. Files differ in size, but not by so
much on average."""
LEVEL = re.compile(r"[1-9][0-9]{0,8}")
"""A level as written in JSON."""


@dataclass(frozen=True)
class OperatorState:
    """Memory of one operator.

    Attributes:
        fixed_s: o(p) by level, the most recent ones, seconds: observations contain the processing ability only.
        batch_rows: Rows of a full batch, as last seen; None if batches were never full, or far larger ones have run
            since. Only a backlog shows it.
        drift: Changes of the operator itself.
        failures: Consecutive own steps after which it was still too small.
        insufficient: The highest p that was not enough for the rate of the last step, as the operator is now; 0 if none
            is known.
    """

    fixed_s: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    batch_rows: int | None = None
    drift: Drift = field(default_factory=Drift)
    failures: int = 0
    insufficient: int = 0

    def with_batches(self, app: AppSignals, top_k: int) -> OperatorState:
        """Return the state with the latest batches: fixed cost, ``top_k`` per level, and how large they can be.

        The costs of a lower level may date from cold drivers and executors, or a busy machine. They are forgotten once
        ``top_k`` evaluations at this level disprove them, and so is the finding that the lower level was not enough.
        """
        state = replace(self, batch_rows=app.batch_rows_limit or self._batch_rows_since(app))
        capacity = app.capacity or app.first_batches
        if capacity is None:
            return state
        p = capacity.parallelism
        recent = (*self.fixed_s.get(p, ()), capacity.fixed_s)[-top_k:]
        most = DEARER * max(recent) if len(recent) == top_k else math.inf
        outdated = {q for q, costs in self.fixed_s.items() if q < p and min(costs) > most}
        kept = {q: costs for q, costs in self.fixed_s.items() if q not in outdated}
        insufficient = 0 if self.insufficient in outdated else self.insufficient
        return replace(state, fixed_s={**kept, p: recent}, insufficient=insufficient)

    def _batch_rows_since(self, app: AppSignals) -> int | None:
        """Return the rows of a full batch as remembered, unless recent batches disprove it."""
        if self.batch_rows is None or (app.largest_batch_rows or 0) > DISPROVED * self.batch_rows:
            return None
        return self.batch_rows

    def to_json(self) -> Mapping[str, Any]:
        """Return the state as a JSON value."""
        return {
            "batch_rows": self.batch_rows,
            "fixed_s": {str(p): list(values) for p, values in sorted(self.fixed_s.items())},
            "shifts": _pairs(self.drift.shifts),
            "suspects": _pairs(self.drift.suspects),
            "failures": self.failures,
            "insufficient": self.insufficient,
        }

    @classmethod
    def read(cls, stored: object) -> Self:
        """Return a stored state, as far as it is readable."""
        value = mapping(stored)
        levels = mapping(value.get("fixed_s")).items()
        return cls(
            fixed_s={int(p): costs for p, v in levels if LEVEL.fullmatch(p) and (costs := _numbers(v))},
            batch_rows=whole(value.get("batch_rows")) or None,
            drift=Drift(_shifts(value.get("shifts")), _shifts(value.get("suspects"))[: WITNESSES - 1]),
            failures=whole(value.get("failures")),
            insufficient=whole(value.get("insufficient")),
        )


class Promise(NamedTuple):
    """A placement that was to raise throughput.

    Attributes:
        version: Deployment version that it was to change.
        at: Time of the evaluation that proposed it (UTC).
        factor: Throughput afterwards over throughput before, > 1.
    """

    version: int
    at: datetime
    factor: float


@dataclass(frozen=True)
class AppState:
    """Memory of one app.

    Attributes:
        rate: Latest arrival rate that was known to hold, rows per second; None before any.
        unsettled: End of the period since which the present rate is not clear (UTC); None if it is clear.
        stepped: Arrival rate that the last step was made for; None before any.
        stepped_up: The last evaluation took a step up.
        stepped_before: ``stepped`` before the last evaluation took a step; in force again if it was not carried out.
        left: Levels that the last evaluation's step was to leave, by operator name; empty if it took none.
        history: How the rate has moved.
        course: Arrival over time.
        ratios: Learned ratios of the edges.
        operators: States by operator name.
        idle: Consecutive evaluations that found the app idle (:mod:`millrace.optimizers.conttune.idle`).
        promise: What the placement proposed last is to bring; None if there is none, or it is over.
    """

    rate: float | None = None
    unsettled: datetime | None = None
    stepped: float | None = None
    stepped_up: bool = False
    stepped_before: float | None = None
    left: Mapping[str, int] = field(default_factory=dict)
    history: RateHistory = field(default_factory=RateHistory)
    course: Course = field(default_factory=Course)
    ratios: Ratios = field(default_factory=dict)
    operators: Mapping[str, OperatorState] = field(default_factory=dict)
    idle: int = 0
    promise: Promise | None = None

    def after_placement(self, operator: str, version: int) -> AppState:
        """Return the state once a proposed placement is over: earlier observations count as if it had been in force.

        If the placement was not carried out, the version is still the same, and nothing changes.

        Args:
            operator: Name of the operator that got faster.
            version: The Deployment version that runs.
        """
        promise = self.promise
        if promise is None:
            return self
        if version <= promise.version:
            return replace(self, promise=None)
        state = self.operators.get(operator, OperatorState())
        # the observation of the evaluation that proposed it is from before, too
        shift = Shift(promise.at + timedelta(microseconds=1), promise.factor)
        faster = replace(state, drift=state.drift.with_shift(shift), insufficient=0)
        return replace(self, promise=None, operators={**self.operators, operator: faster})

    def after_step(self, levels: Mapping[str, int]) -> AppState:
        """Return the state without the last step if it was not carried out: advised, vetoed, refused, or undone since.

        A step that was not made cannot have failed, and is no reason to leave the slots alone.

        Args:
            levels: Present or requested level by operator name.
        """
        if not self.left or any(levels.get(name) != level for name, level in self.left.items()):
            return self
        return replace(self, stepped=self.stepped_before, stepped_up=False, left={})

    def is_stepped_for(self, rate: float) -> bool:
        """Return whether the last step was made for a rate, rows per second."""
        return self.stepped is not None and abs(rate - self.stepped) <= SAME_RATE * max(rate, self.stepped)

    def at_rate(self, rate: float) -> AppState:
        """Return the state for a rate, rows per second: levels that were too small for another rate may be enough."""
        if self.is_stepped_for(rate):
            return self
        operators = {name: replace(state, insufficient=0) for name, state in self.operators.items()}
        return replace(self, operators=operators)

    def to_json(self) -> Mapping[str, Any]:
        """Return the state as a JSON value."""
        return {
            "rate": self.rate,
            "unsettled": self.unsettled and self.unsettled.isoformat(),
            "stepped": self.stepped,
            "stepped_up": self.stepped_up,
            "stepped_before": self.stepped_before,
            "left": dict(sorted(self.left.items())),
            "runs": [list(run) for run in self.history.runs],
            "latest": list(self.history.latest),
            "course": [list(span) for span in self.course.spans],
            "seen": self.course.seen and self.course.seen.isoformat(),
            "ratios": ratios_to_json(self.ratios),
            "operators": {name: state.to_json() for name, state in sorted(self.operators.items())},
            "idle": self.idle,
            "promise": self.promise and [self.promise.version, self.promise.at.isoformat(), self.promise.factor],
        }

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Self:
        """Return a stored state, as far as it is readable."""
        runs = (_numbers(v) for v in items(value.get("runs")))
        spans = (_numbers(v) for v in items(value.get("course")))
        return cls(
            rate=number(value.get("rate"), 0.0),
            unsettled=_time(value.get("unsettled")),
            stepped=number(value.get("stepped"), 0.0),
            stepped_up=value.get("stepped_up") is True,
            stepped_before=number(value.get("stepped_before"), 0.0),
            left={name: whole(level) for name, level in mapping(value.get("left")).items()},
            history=RateHistory(
                tuple(Run(run[0], int(run[1])) for run in runs if len(run) == 2), _numbers(value.get("latest"))
            ),
            course=Course(
                tuple(Span(*span) for span in spans if len(span) == 2 and span[1] > 0), _time(value.get("seen"))
            ),
            ratios=read_ratios(value.get("ratios")),
            operators={name: OperatorState.read(v) for name, v in mapping(value.get("operators")).items()},
            idle=whole(value.get("idle")),
            promise=_promise(value.get("promise")),
        )


def _promise(stored: Any) -> Promise | None:
    entry = items(stored)
    if len(entry) != 3:
        return None
    at, factor = _time(entry[1]), number(entry[2]) or 0.0
    return Promise(whole(entry[0]), at, factor) if at and is_possible(factor) and factor > 1 else None


def _pairs(shifts: Iterable[Shift]) -> list[list[Any]]:
    return [[shift.at.isoformat(), shift.factor] for shift in shifts]


def _shifts(stored: Any) -> tuple[Shift, ...]:
    entries = (items(entry) for entry in items(stored))
    pairs = ((_time(entry[0]), number(entry[1]) or 0.0) for entry in entries if len(entry) == 2)
    return tuple(Shift(at, factor) for at, factor in pairs if at and is_possible(factor))


def _time(value: Any) -> datetime | None:
    with suppress(ValueError, TypeError):
        time = datetime.fromisoformat(value)
        return time if time.tzinfo is not None else None
    return None


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(n for v in items(values) if (n := number(v, 0.0)) is not None)
