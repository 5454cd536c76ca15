"""What flow keeps between looks, as a JSON value; what cannot be understood of it is as if never written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from include.model.signals import AppSignals
from optimizers.conttune.flow.drift import Drift, Shift
from optimizers.conttune.flow.load import Loads, Run
from optimizers.conttune.flow.rates import Edge, Ratio, Ratios
from optimizers.conttune.inputs import possible
from optimizers.conttune.stored import items, mapping, number, whole

LEVEL = re.compile(r"[1-9][0-9]{0,8}")
"""A level as it stands in JSON."""


@dataclass(frozen=True)
class Notes:
    """Of one operator.

    Attributes:
        fixed_s: o(p) by level, the most recent ones, seconds: observations hold the processing ability only.
        batch_rows: Rows of a full batch, as last seen; None if batches were never full. Only a backlog shows it.
        drift: Changes of the operator itself.
        failures: Own steps in a row after which it was still too small.
    """

    fixed_s: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    batch_rows: int | None = None
    drift: Drift = field(default_factory=Drift)
    failures: int = 0

    def of_batches(self, app: AppSignals, top_k: int) -> Notes:
        """Return the notes with what batches tell: fixed cost, ``top_k`` a level, and how large they can be."""
        seen = replace(self, batch_rows=app.batch_rows_limit or self.batch_rows)
        if app.capacity is None:
            return seen
        p = app.capacity.parallelism
        recent = (*self.fixed_s.get(p, ()), app.capacity.fixed_s)[-top_k:]
        return replace(seen, fixed_s={**self.fixed_s, p: recent})


@dataclass(frozen=True)
class AppNotes:
    """Of one app.

    Attributes:
        rate: Latest arrival rate that was known to hold, rows a second; None before any.
        unsettled: End of the look since which the rate that holds cannot be told (UTC); None where it can.
        stepped: Arrival rate that the last step was made for; None before any.
        stepped_up: The last look took a step up.
        loads: How the rate has moved.
        ratios: What was learned of the edges.
        operators: Notes by operator name.
    """

    rate: float | None = None
    unsettled: datetime | None = None
    stepped: float | None = None
    stepped_up: bool = False
    loads: Loads = field(default_factory=Loads)
    ratios: Ratios = field(default_factory=dict)
    operators: Mapping[str, Notes] = field(default_factory=dict)


def write(note: AppNotes) -> Mapping[str, Any]:
    """Return the notes of an app as a JSON value."""
    return {
        "rate": note.rate,
        "unsettled": note.unsettled and note.unsettled.isoformat(),
        "stepped": note.stepped,
        "stepped_up": note.stepped_up,
        "runs": [[r.rate, r.looks] for r in note.loads.runs],
        "latest": list(note.loads.latest),
        "ratios": [
            [producer, consumer, r.looks, r.took, r.got, r.took2, r.got2, r.cross]
            for (producer, consumer), r in note.ratios.items()
        ],
        "operators": {name: _operator_plain(n) for name, n in sorted(note.operators.items())},
    }


def _operator_plain(note: Notes) -> Mapping[str, Any]:
    return {
        "batch_rows": note.batch_rows,
        "fixed_s": {str(p): list(values) for p, values in sorted(note.fixed_s.items())},
        "shifts": [[s.at.isoformat(), s.factor] for s in note.drift.shifts],
        "suspect": note.drift.suspect,
        "failures": note.failures,
    }


def read(value: Mapping[str, Any]) -> AppNotes:
    """Return the notes of an app from what :func:`write` made of them, or from anything else as far as it goes."""
    return AppNotes(
        rate=number(value.get("rate"), 0.0),
        unsettled=_time(value.get("unsettled")),
        stepped=number(value.get("stepped"), 0.0),
        stepped_up=value.get("stepped_up") is True,
        loads=Loads(
            tuple(Run(r[0], int(r[1])) for v in items(value.get("runs")) if len(r := _numbers(v)) == 2),
            _numbers(value.get("latest")),
        ),
        ratios={edge: ratio for v in items(value.get("ratios")) for edge, ratio in _ratio(items(v))},
        operators={name: _operator(mapping(n)) for name, n in mapping(value.get("operators")).items()},
    )


def _ratio(entry: Sequence[Any]) -> Iterator[tuple[Edge, Ratio]]:
    edge, sums = entry[:2], _numbers(entry[2:])
    named = len(entry) == 8 and all(isinstance(end, str) for end in edge)
    if named and len(sums) == 6 and sums[0] > 0 and possible(sums[1]):
        yield (edge[0], edge[1]), Ratio(*sums)


def _operator(value: Mapping[str, Any]) -> Notes:
    levels = mapping(value.get("fixed_s")).items()
    return Notes(
        fixed_s={int(p): kept for p, values in levels if LEVEL.fullmatch(p) and (kept := _numbers(values))},
        batch_rows=whole(value.get("batch_rows")) or None,
        drift=Drift(
            tuple(shift for v in items(value.get("shifts")) for shift in _shift(items(v))),
            number(value.get("suspect")) or 0.0,
        ),
        failures=whole(value.get("failures")),
    )


def _shift(entry: Sequence[Any]) -> Iterator[Shift]:
    if len(entry) == 2 and (at := _time(entry[0])) and possible(factor := number(entry[1]) or 0.0):
        yield Shift(at, factor)


def _time(value: Any) -> datetime | None:
    with suppress(ValueError, TypeError):
        time = datetime.fromisoformat(value)
        return time if time.tzinfo is not None else None
    return None


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(n for v in items(values) if (n := number(v, 0.0)) is not None)
