"""Measures every benchmark, one after the other, and goes on where an earlier run ended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.record import Record, read
from millrace.places import REPO


@dataclass(frozen=True)
class Measurement:
    """What is measured at a time.

    Attributes:
        bench: The benchmark.
        scenario: Its scenario; None where it is measured as a whole.
        seed: Of its runs; 0 for the usual ones.
        gives: Scenario of its records, where that has another name.
    """

    bench: str
    scenario: str | None = None
    seed: int = 0
    gives: str | None = None

    def done(self, records: Sequence[Record]) -> bool:
        """Say whether there is a figure of it."""
        scenario = self.gives or self.scenario
        of_seed = (r for r in records if (r.bench, r.seed) == (self.bench, self.seed))
        return any(scenario in (None, r.scenario) for r in of_seed)


def measure_all(parts: Sequence[Measurement], path: Path, flags: Sequence[str], console: Console) -> int:
    """Measure what has no figures yet, and add them, part by part.

    Each part is a process of its own. Interrupted, the part that runs is lost, and the next run begins with it.

    Args:
        parts: What is measured.
        path: As for ``benchmarks.record.write``.
        flags: Of the command, for every part.
        console: Where progress is shown.

    Returns:
        How many parts failed: they have no figures, and are measured again by the next run.

    Raises:
        MillraceError: If a file holds something else.
    """
    failed = 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        shown = progress.add_task("", total=len(parts))
        for part in parts:
            progress.update(shown, description=" ".join(filter(None, (part.bench, part.scenario))))
            if not part.done(read(path)):
                failed += not _measured(part, path, flags)
            progress.advance(shown)
    return failed


def _measured(part: Measurement, path: Path, flags: Sequence[str]) -> bool:
    """Add a part's figures to the others; False if it failed."""
    argv = [sys.executable, "-m", "millrace.local.cli", "bench", part.bench, f"--json={path.resolve()}"]
    return subprocess.run([*argv, *flags, *_options(part)], cwd=REPO, check=False).returncode == 0


def _options(part: Measurement) -> Iterator[str]:
    if part.scenario is not None:
        yield f"--scenario={part.scenario}"
    if part.seed:
        yield f"--seed={part.seed}"
