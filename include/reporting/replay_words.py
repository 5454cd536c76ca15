"""A replay in words and as a table: for a person, a spreadsheet, a program."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from include.model.backtest import Backtest
from include.model.codec import to_plain

COURSES = ("recorded", "replayed")
OF_A_COURSE = ("slots", "decided", "ability_rows_per_s", "backlog_rows", "action", "reason_code", "sentence")
OF_A_LOOK = ("time", "span_s", "arrival_rows_per_s", "agreed", "modelled")


def summary(backtest: Backtest) -> str:
    """Return what came of a replay, in two sentences at most."""
    looks, was, would = backtest.looks, backtest.recorded, backtest.replayed
    begin, end = looks[0].time, looks[-1].time
    saved = would.core_s / was.core_s - 1 if was.core_s else 0.0
    parts = [
        f"{would.reconfigurations} reconfiguration{_s(would.reconfigurations)} where {was.reconfigurations} "
        f"{'was' if was.reconfigurations == 1 else 'were'} made",
        f"{would.core_s:,.0f} core-seconds where {was.core_s:,.0f} were used ({saved:+.0%})",
        f"{would.under_provisioned} look{_s(would.under_provisioned)} with too few slots where there "
        f"{'was' if was.under_provisioned == 1 else 'were'} {was.under_provisioned}",
        f"at most {would.peak_slots} slot{_s(would.peak_slots)} where there were {was.peak_slots}",
    ]
    text = (
        f"On {len(looks)} look{_s(len(looks))} of {backtest.pipeline} from {begin:%Y-%m-%d %H:%M} to "
        f"{end:%Y-%m-%d %H:%M} UTC, {backtest.tuner} would have decided on the same slots at {backtest.agreed}: "
        f"{', '.join(parts)}."
    )
    if not backtest.modelled:
        return f"{text} Every look is a recorded one."
    few = backtest.modelled == 1
    return f"{text} {backtest.modelled} look{' is' if few else 's are'} modelled, for other slots ran than recorded."


def plain(backtest: Backtest) -> Mapping[str, Any]:
    """Return a replay as JSON-able types: its figures, its summary and every look."""
    return {
        "pipeline": backtest.pipeline,
        "tuner": backtest.tuner,
        "options": to_plain(backtest.options),
        "summary": summary(backtest),
        "figures": dict(backtest.figures),
        "downtime_s": backtest.downtime_s,
        "looks": [
            {**_columns(look, OF_A_LOOK), **{name: _columns(getattr(look, name), OF_A_COURSE) for name in COURSES}}
            for look in backtest.looks
        ],
    }


def as_csv(backtest: Backtest) -> str:
    """Return a replay as a table, one row a look."""
    out = io.StringIO()
    names = [*OF_A_LOOK, *(f"{course}_{name}" for course in COURSES for name in OF_A_COURSE)]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for look in backtest.looks:
        cells = list(_columns(look, OF_A_LOOK).values())
        for course in (look.recorded, look.replayed):
            cells += [_inert(value) for value in _columns(course, OF_A_COURSE).values()]
        writer.writerow(cells)
    return out.getvalue()


def told(backtest: Backtest) -> Iterator[tuple[str, str, str]]:
    """Yield the figures as rows of a table: what it is, what was done, what would have been done."""
    was, would = backtest.recorded, backtest.replayed
    yield "reconfigurations", f"{was.reconfigurations}", f"{would.reconfigurations}"
    yield "core-seconds", f"{was.core_s:,.0f}", f"{would.core_s:,.0f}"
    yield "looks with too few slots", f"{was.under_provisioned}", f"{would.under_provisioned}"
    yield "most slots", f"{was.peak_slots}", f"{would.peak_slots}"


def _columns(of: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: to_plain(getattr(of, name)) for name in names}


def _inert(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula, whatever an error's text begins with."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value


def _s(count: int) -> str:
    return "" if count == 1 else "s"
