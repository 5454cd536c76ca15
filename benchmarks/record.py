"""The common format of all benchmark results."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from rich.table import Table

from millrace.atomic_file import write_atomically
from millrace.model.errors import MillraceError

K = TypeVar("K", bound=Hashable)

UNITS = {"1": "", "ratio": "", "1/tuning": "", "us": "µs"}
"""How documents show units, if not as recorded."""
PLURAL = {"changes", "cores", "rows", "runs", "settings", "sizes", "slots", "streams"}
"""Units that lose their s after 1."""


@dataclass(frozen=True)
class Record:
    """A measured figure.

    Args:
        bench: The benchmark's name.
        scenario: The scenario.
        method: Ours, or a rival by name.
        figure: Name of the figure.
        value: The measurement; the median of several.
        unit: Its unit.
        low: Lower end of the 95 % interval, None without an interval.
        high: Upper end.
        n: Number of measurements.
        target: The target, such as ``<=45``; None without one.
        holds: Whether the target was met, None without a target.
        measured: The day, and the commit that was measured; empty if unknown.
        seed: Seed of the runs, >= 0; seeds other than 0 show whether a verdict depends on the seed.
    """

    bench: str
    scenario: str
    method: str
    figure: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None
    n: int = 1
    target: str | None = None
    holds: bool | None = None
    measured: str = ""
    seed: int = 0


def median(bench: str, scenario: str, method: str, figure: str, values: Sequence[float], unit: str) -> Record:
    """Return the median of measurements; with several of them, also the interval that contains 95 % of them.

    Args:
        bench: The benchmark's name.
        scenario: The scenario.
        method: Ours, or a rival by name.
        figure: Name of the figure.
        values: The measurements, at least one.
        unit: Their unit.
    """
    low, high = (float(v) for v in np.quantile(values, (0.025, 0.975)))
    several = len(values) > 1
    return Record(
        bench,
        scenario,
        method,
        figure,
        float(np.median(values)),
        unit,
        low if several else None,
        high if several else None,
        len(values),
    )


def percentiles(
    bench: str, scenario: str, method: str, figure: str, times_s: Sequence[float], limits: Mapping[int, float | None]
) -> list[Record]:
    """Return percentiles of times, each judged if it has a limit; nothing without times.

    Args:
        bench: The benchmark's name.
        scenario: The scenario.
        method: Ours, or a rival by name.
        figure: Name of the figure; ``{}`` in it becomes the percentile.
        times_s: The measurements, seconds.
        limits: The percentiles, each with its highest acceptable value, or None.
    """
    records = []
    for percentile, limit in limits.items() if times_s else ():
        value, named = float(np.percentile(times_s, percentile)), figure.format(percentile)
        target, holds = (None, None) if limit is None else at_most(value, limit)
        records.append(Record(bench, scenario, method, named, value, "s", n=len(times_s), target=target, holds=holds))
    return records


def grouped(records: Iterable[Record], key: Callable[[Record], K]) -> dict[K, list[Record]]:
    """Return records by their key, both in the order in which they first appear."""
    groups: dict[K, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def at_most(value: float, limit: float) -> tuple[str, bool]:
    """Judge a value against an upper limit.

    Args:
        value: The measurement, judged as recorded: with six digits.
        limit: The highest acceptable value.

    Returns:
        The target as text and whether it holds.
    """
    return f"<={limit:g}", _rounded(value) <= limit


def shown(record: Record) -> str:
    """Return a figure for documents: three digits, the unit, and the interval."""
    unit = UNITS.get(record.unit, record.unit)
    if record.value == 1 and unit in PLURAL:
        unit = unit.removesuffix("s")
    value = f"{_short(record.value)} {unit}".rstrip()
    return (
        value
        if record.low is None or record.high is None
        else f"{value} ({_short(record.low)} to {_short(record.high)})"
    )


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(records: Sequence[Record]) -> Table:
    """Lay records out for a terminal.

    Args:
        records: The benchmark's results.
    """
    shown = Table("scenario", "method", "figure", "value", "95 %", "n", "target", "holds", box=None)
    for r in records:
        interval = f"{r.low:.4g} - {r.high:.4g}" if r.low is not None and r.high is not None else ""
        holds = "" if r.holds is None else "[green]yes[/]" if r.holds else "[red]no[/]"
        value = f"{r.value:.4g} {r.unit}"
        shown.add_row(r.scenario, r.method, r.figure, value, interval, str(r.n), r.target or "", holds)
    return shown


def write(records: Sequence[Record], path: Path) -> None:
    """Write records to a file or folder, replacing earlier records of the same scenarios and seed.

    Figures have six digits: no measurement has more.

    Args:
        records: The benchmark's results.
        path: A JSON list, created if missing; or a folder of such lists, ``BENCH/SCENARIO.json``.

    Raises:
        MillraceError: If it contains something else; it is then left unchanged.
    """
    files: dict[Path, list[Record]] = {}
    for r in records:
        file = path / r.bench / f"{r.scenario}.json" if path.is_dir() else path
        files.setdefault(file, []).append(r)
    for file, new in files.items():
        replaced = {(r.bench, r.scenario, r.seed) for r in new}
        every = [*(r for r in read(file) if (r.bench, r.scenario, r.seed) not in replaced), *new]
        lines = ",\n".join(json.dumps(_row(r)) for r in every)
        file.parent.mkdir(exist_ok=True)
        write_atomically(file, f"[\n{lines}\n]\n", 0o644)


def _row(record: Record) -> dict[str, object]:
    return {name: _rounded(v) if isinstance(v, float) else v for name, v in asdict(record).items()}


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def read(path: Path) -> list[Record]:
    """Return the records of a file, or of all files of a folder; none if neither exists.

    Raises:
        MillraceError: If a file contains something else.
    """
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path] if path.exists() else []
    return [record for file in files for record in _records(file)]


def _records(file: Path) -> list[Record]:
    try:
        return [Record(**row) for row in json.loads(file.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        remedy = "Name another file, or one that an earlier run wrote."
        raise MillraceError("--json", str(file), "a JSON list of records", remedy) from error
