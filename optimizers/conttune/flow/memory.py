"""What flow keeps between looks, as a JSON value; what cannot be understood of it is as if never written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from include.contracts.signals import AppSignals
from optimizers.conttune.flow.drift import Drift, Shift
from optimizers.conttune.flow.load import Loads, Run
from optimizers.conttune.flow.rates import Ratio, Ratios


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
        rate: Arrival rate of the last look, rows a second; None before any.
        waited: The last look let a step wait because its period was half old.
        stepped: Arrival rate that the last step was made for; None before any.
        stepped_up: The last look took a step up.
        loads: How the rate has moved.
        ratios: What was learned of the edges.
        operators: Notes by operator name.
    """

    rate: float | None = None
    waited: bool = False
    stepped: float | None = None
    stepped_up: bool = False
    loads: Loads = field(default_factory=Loads)
    ratios: Ratios = field(default_factory=dict)
    operators: Mapping[str, Notes] = field(default_factory=dict)


def write(note: AppNotes) -> Mapping[str, Any]:
    """Return the notes of an app as a JSON value."""
    return {
        "rate": note.rate,
        "waited": note.waited,
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
    operators = value.get("operators")
    known = operators.items() if isinstance(operators, Mapping) else ()
    return AppNotes(
        rate=_number(value.get("rate")),
        waited=value.get("waited") is True,
        stepped=_number(value.get("stepped")),
        stepped_up=value.get("stepped_up") is True,
        loads=Loads(
            tuple(Run(r[0], int(r[1])) for r in _rows(value.get("runs"), 2)),
            tuple(n for v in _list(value.get("latest")) if (n := _number(v)) is not None),
        ),
        ratios={
            (r[0], r[1]): Ratio(*r[2:])
            for r in _list(value.get("ratios"))
            if _is_list(r) and len(r) == 8 and all(_number(v) is not None for v in r[2:])
        },
        operators={str(name): _operator(n) for name, n in known if isinstance(n, Mapping)},
    )


def _operator(value: Mapping[str, Any]) -> Notes:
    rows = _number(value.get("batch_rows"))
    fixed, failures, suspect = value.get("fixed_s"), value.get("failures"), value.get("suspect")
    levels = fixed.items() if isinstance(fixed, Mapping) else ()
    return Notes(
        fixed_s={int(p): kept for p, values in levels if str(p).isdigit() and (kept := _numbers(values))},
        batch_rows=round(rows) if rows else None,
        drift=Drift(
            tuple(shift for entry in _list(value.get("shifts")) if (shift := _shift(entry)) is not None),
            float(suspect) if isinstance(suspect, int | float) and math.isfinite(suspect) else 0.0,
        ),
        failures=failures if isinstance(failures, int) and failures > 0 else 0,
    )


def _shift(entry: Any) -> Shift | None:
    if not _is_list(entry) or len(entry) != 2 or not isinstance(entry[0], str) or not _number(entry[1]):
        return None
    try:
        at = datetime.fromisoformat(entry[0])
    except ValueError:
        return None
    return Shift(at, float(entry[1])) if at.tzinfo is not None else None


def _rows(value: Any, width: int) -> list[list[float]]:
    rows = [_numbers(r) for r in _list(value) if _is_list(r) and len(r) == width]
    return [list(r) for r in rows if len(r) == width]


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(n for v in _list(values) if (n := _number(v)) is not None)


def _number(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    return float(value) if known else None


def _list(value: Any) -> Sequence[Any]:
    return value if _is_list(value) else ()


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
