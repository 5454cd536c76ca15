"""Run every benchmark, one after the other, and continue where an earlier run ended."""

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
    """One benchmark run.

    Attributes:
        bench: The benchmark.
        scenario: Its scenario; None if the benchmark has no scenarios.
        seed: Seed of its runs; 0 for the usual ones.
        gives: Scenario name in its records, if different.
    """

    bench: str
    scenario: str | None = None
    seed: int = 0
    gives: str | None = None

    def done(self, records: Sequence[Record]) -> bool:
        """Return whether the records contain a figure of it."""
        scenario = self.gives or self.scenario
        of_seed = (r for r in records if (r.bench, r.seed) == (self.bench, self.seed))
        return any(scenario in (None, r.scenario) for r in of_seed)


def measure_all(parts: Sequence[Measurement], path: Path, flags: Sequence[str], console: Console) -> int:
    """Run the benchmarks that have no figures yet, and add their figures one by one.

    Each benchmark runs in its own process. An interrupt loses only the running one; the next run starts with it.

    Args:
        parts: The benchmarks to run.
        path: As for ``benchmarks.record.write``.
        flags: Flags of the command, passed to every benchmark.
        console: Where progress is shown.

    Returns:
        How many benchmarks failed. They have no figures; the next run tries them again.

    Raises:
        MillraceError: If a file contains something else.
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
    """Add a benchmark's figures to the file; return False if it failed."""
    argv = [sys.executable, "-m", "millrace.local.cli", "bench", part.bench, f"--json={path.resolve()}"]
    return subprocess.run([*argv, *flags, *_options(part)], cwd=REPO, check=False).returncode == 0


def _options(part: Measurement) -> Iterator[str]:
    if part.scenario is not None:
        yield f"--scenario={part.scenario}"
    if part.seed:
        yield f"--seed={part.seed}"
