"""The one shape of every benchmark's results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from millrace.atomic_file import write_atomically
from millrace.model.errors import MillraceError


@dataclass(frozen=True)
class Record:
    """A measured figure.

    Args:
        bench: The benchmark's name.
        scenario: What was done.
        method: Ours, or a rival by name.
        figure: What was measured.
        value: The measurement; a median where there are several.
        unit: Its unit.
        low: Lower end of the 95 % interval, None where there is none.
        high: Upper end.
        n: How many measurements.
        target: What was aimed at, such as ``<=45``, None where nothing was.
        holds: Whether the target was met, None without a target.
        measured: The day, and the commit that was measured; empty where nobody said.
        seed: Of the runs, >= 0; the others than 0 say whether a verdict depends on it.
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
    """Return the median of measurements, with the interval that holds 95 % of them where there are several.

    Args:
        bench: The benchmark's name.
        scenario: What was done.
        method: Ours, or a rival by name.
        figure: What was measured.
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
    """Return percentiles of times, each judged where it has a limit; nothing without times.

    Args:
        bench: The benchmark's name.
        scenario: What was done.
        method: Ours, or a rival by name.
        figure: What was measured; ``{}`` in it becomes the percentile.
        times_s: The measurements, seconds.
        limits: The percentiles, each with the highest value that is good, or None.
    """
    records = []
    for percentile, limit in limits.items() if times_s else ():
        value, named = float(np.percentile(times_s, percentile)), figure.format(percentile)
        target, holds = (None, None) if limit is None else at_most(value, limit)
        records.append(Record(bench, scenario, method, named, value, "s", n=len(times_s), target=target, holds=holds))
    return records


def at_most(value: float, limit: float) -> tuple[str, bool]:
    """Judge a value against an upper limit.

    Args:
        value: The measurement, which is judged as it is recorded: with six digits.
        limit: The highest value that is good.

    Returns:
        The target as text and whether it holds.
    """
    return f"<={limit:g}", _rounded(value) <= limit


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
    """Write records to a file or folder, where they take the place of former ones of the same scenarios and seed.

    Figures have six digits: no measurement has more.

    Args:
        records: The benchmark's results.
        path: A JSON list, made if it is not there; or a folder of such, ``BENCH/SCENARIO.json``.

    Raises:
        MillraceError: If it holds something else; that is kept.
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
    """Return the records of a file, or of all files of a folder; none where there is neither.

    Raises:
        MillraceError: If one holds something else.
    """
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path] if path.exists() else []
    return [record for file in files for record in _records(file)]


def _records(file: Path) -> list[Record]:
    try:
        return [Record(**row) for row in json.loads(file.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        remedy = "Name another file, or one that an earlier run wrote."
        raise MillraceError("--json", str(file), "a JSON list of records", remedy) from error
