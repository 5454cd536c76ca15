"""What a pipeline measured over a span, which decisions were made, and what the slots cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from millrace.lake.control_tables import ControlTables
from millrace.model.chain_rate import chain_rate
from millrace.model.codec import from_json
from millrace.model.decision import CARRIED_OUT, Action
from millrace.model.row_wait import sustainable
from millrace.model.signals import Signals

MOST_MOMENTS = 300
GAP = 4.0
"""Gap between two evaluations, as a multiple of the usual one, from which the time in between is unknown."""


@dataclass(frozen=True)
class Moment:
    """Measurements of one evaluation; None if unknown.

    Attributes:
        time: When (UTC).
        arrival: Rows/s that arrive.
        capacity: Rows/s that the slots can sustain.
        slots: Slots that run.
        backlog: Rows that wait.
    """

    time: datetime
    arrival: float | None
    capacity: float | None
    slots: int
    backlog: int | None


@dataclass(frozen=True)
class Mark:
    """A Decision that changed something, or asked to: its time, action and sentence."""

    time: datetime
    action: Action
    sentence: str


@dataclass(frozen=True)
class History:
    """A span of one pipeline; moments and marks are in order of time.

    Attributes:
        since: Its start (UTC).
        until: Its end (UTC).
        moments: Measurements, a sample of all evaluations.
        marks: Decisions.
    """

    since: datetime
    until: datetime
    moments: tuple[Moment, ...]
    marks: tuple[Mark, ...]

    @cached_property
    def gap_s(self) -> float:
        """Gap between two moments from which the time in between is unknown, seconds."""
        steps = [(b.time - a.time).total_seconds() for a, b in pairwise(self.moments)]
        return GAP * float(np.median(steps)) if steps else 0.0

    @property
    def core_hours(self) -> float:
        """Slots times the hours that they ran."""
        return sum(a.slots * self._step_s(a, b) for a, b in pairwise(self.moments)) / 3600

    @property
    def peak_core_hours(self) -> float:
        """The same if the most slots of the span had run all the time: the cost of a fixed size for the peak."""
        most = max((moment.slots for moment in self.moments), default=0)
        return most * sum(self._step_s(a, b) for a, b in pairwise(self.moments)) / 3600

    @property
    def saved_ratio(self) -> float:
        """Share of the peak's core-hours that was not used, 0..1; 0 if nothing was measured."""
        return 1 - self.core_hours / self.peak_core_hours if self.peak_core_hours else 0.0

    @property
    def days(self) -> float:
        """Length of the span, days."""
        return (self.until - self.since) / timedelta(days=1)

    @property
    def changes(self) -> int:
        """Number of changes."""
        return sum(mark.action in CARRIED_OUT for mark in self.marks)

    def _step_s(self, a: Moment, b: Moment) -> float:
        step = (b.time - a.time).total_seconds()
        return step if step <= self.gap_s else 0.0


def history(tables: ControlTables, pipeline: str, since: datetime, until: datetime) -> History:
    """Return a span (UTC) of a pipeline, with about 300 moments."""
    return histories(tables, [pipeline], since, until, MOST_MOMENTS)[pipeline]


def histories(
    tables: ControlTables, pipelines: Sequence[str], since: datetime, until: datetime, most: int
) -> dict[str, History]:
    """Return a span of several pipelines, by name.

    Args:
        tables: Control tables with the history.
        pipelines: Their names.
        since: Start of the span (UTC).
        until: Its end (UTC).
        most: Approximate number of moments of each.
    """
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in pipelines}
    for row in tables.decisions.sample(pipelines, since, until, most) if pipelines else ():
        rows[row["pipeline"]].append(row)
    return {name: _history(each, since, until) for name, each in rows.items()}


def _history(rows: Sequence[Mapping[str, Any]], since: datetime, until: datetime) -> History:
    marked = [(row, Action(row["action"])) for row in rows]
    marks = [
        Mark(row["time"], action, row["sentence"]) for row, action in marked if action in (*CARRIED_OUT, Action.AWAIT)
    ]
    return History(since, until, tuple(filter(None, map(_moment, rows))), tuple(marks))


def _moment(row: Mapping[str, Any]) -> Moment | None:
    if row["signals"] is None:
        return None
    signals = json.loads(row["signals"])
    apps = signals["apps"]
    if not apps:
        return None
    if len(apps) == 1:
        (app,) = apps
        capacity = _sustainable(app, signals["objective"])
        return Moment(row["time"], app.get("arrival_rows_per_s"), capacity, app["slots"], app.get("backlog_rows"))
    seen = from_json(Signals, row["signals"])
    capacity = chain_rate(seen, {app.app: app.sustainable(seen.objective) for app in seen.apps})
    slots = sum(app.slots for app in seen.apps)
    return Moment(row["time"], seen.arrival_rows_per_s, capacity, slots, seen.backlog_rows)


def _sustainable(app: Mapping[str, Any], objective: Mapping[str, Any]) -> float | None:
    capacity, limit, trigger_s = app.get("capacity"), app.get("batch_rows_limit"), app.get("trigger_s", 0.0)
    if not capacity:
        return None
    return sustainable(capacity["rows_per_s"], capacity["fixed_s"], limit, objective["max_lag_s"], trigger_s)
