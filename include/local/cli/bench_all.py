"""Measures every benchmark, one after the other, and goes on where an earlier run of the same file ended."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from include.atomic_file import write_atomically
from include.local.stack.home import REPO
from include.model.errors import MillraceError

Row = Mapping[str, Any]
"""A record as JSON."""


@dataclass(frozen=True)
class Part:
    """What is measured at a time.

    Attributes:
        bench: The benchmark.
        scenario: Its scenario; None where it is measured as a whole.
        seed: Whether it takes a seed.
    """

    bench: str
    scenario: str | None = None
    seed: bool = False

    def done(self, rows: Sequence[Row]) -> bool:
        """Say whether rows hold a figure of it."""
        return any(row["bench"] == self.bench and self.scenario in (None, row["scenario"]) for row in rows)


def measure_all(parts: Sequence[Part], file: Path, quick: bool, seed: int | None, console: Console) -> int:
    """Measure what a file has no figures of, and add them to it, part by part.

    Each part is a process of its own. Interrupted, the part that runs is lost, and the next run begins with it.

    Args:
        parts: What is measured.
        file: A JSON list of records; made if it is not there.
        quick: Every scenario with fewer repetitions.
        seed: For the parts that take one.
        console: Where progress is shown.

    Returns:
        How many parts failed: they have no figures, and are measured again by the next run.

    Raises:
        MillraceError: If the file holds something else.
    """
    failed = 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        shown = progress.add_task("", total=len(parts))
        for part in parts:
            rows = read(file)
            progress.update(shown, description=" ".join(filter(None, (part.bench, part.scenario))))
            if not part.done(rows):
                found = _measured(part, quick, seed)
                failed += found is None
                write_atomically(file, json.dumps([*rows, *(found or ())], indent=1) + "\n", 0o644)
            progress.advance(shown)
    return failed


def read(file: Path) -> list[Row]:
    """Return the records of a file; none where there is no file.

    Raises:
        MillraceError: If it holds something else.
    """
    try:
        rows = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
        return [row for row in rows if row["bench"] and row["scenario"]]
    except (OSError, ValueError, TypeError, KeyError) as error:
        remedy = "Name another file, or one that an earlier run wrote."
        raise MillraceError("--json", str(file), "a JSON list of records", remedy) from error


def _measured(part: Part, quick: bool, seed: int | None) -> list[Row] | None:
    """Return a part's records; None if it failed."""
    with tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder:
        found = Path(folder) / "records.json"
        argv = [sys.executable, "-m", "include.local.cli", "bench", part.bench, f"--json={found}"]
        argv += [*_options(part, quick, seed)]
        ended = subprocess.run(argv, cwd=REPO, check=False)
        return read(found) if ended.returncode == 0 else None


def _options(part: Part, quick: bool, seed: int | None) -> Iterator[str]:
    if quick:
        yield "--quick"
    if part.scenario is not None:
        yield f"--scenario={part.scenario}"
    if seed is not None and part.seed:
        yield f"--seed={seed}"
