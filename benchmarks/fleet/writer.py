"""One process that commits the rows of all streams, each to its own Delta table: ``python -m benchmarks.fleet.writer``.

Its first line of input is the folder of the tables, the second the load as JSON. It creates the tables and prints
``ready``. A third line lets it begin, which it prints as seconds since 1970. It ends with the load, or as soon as its
input is closed; both after it has committed every row that is due.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.fleet.checksums import Checksums
from benchmarks.fleet.workloads import Floats, Load
from millrace.lake.source_tables import SourceTable
from millrace.places import REPO, SOURCES

SCHEMA = pa.schema([("id", pa.int64())])
CONTENT, TRANSACTION = "rows of bench fleet", "bench"
COMMIT_S = 2.5
"""Seconds between two commits of a table."""


@dataclass
class Tables:
    """The tables of all streams, new ones, each with rows that are numbered from 0.

    Attributes:
        tables: The tables.
        total: Rows of each that are due by the end of each period, from 0 on, shape (T + 1, S).
        period_s: Length of a period, seconds.
    """

    tables: Sequence[SourceTable]
    total: Floats
    period_s: float

    def __post_init__(self) -> None:
        self._rows = np.zeros(len(self.tables), dtype=int)
        self._commits = np.zeros(len(self.tables), dtype=int)
        self._checksums = [Checksums(table.path) for table in self.tables]

    def commit(self, table: int, time_s: float) -> None:
        """Commit the rows of a table that are due at a time since the beginning, in one file."""
        due = int(np.interp(time_s / self.period_s, np.arange(len(self.total)), self.total[:, table]) + 1e-9)
        first = int(self._rows[table])
        if due > first:
            rows = pa.table({"id": pa.array(range(first, due), pa.int64())}, schema=SCHEMA)
            version = self.tables[table].append(rows, 1, TRANSACTION, int(self._commits[table]))
            assert version is not None  # it is the only writer, and counts up
            self._checksums[table].add(version)
            self._rows[table], self._commits[table] = due, self._commits[table] + 1


def play(tables: Tables, wait: Callable[[float], bool]) -> None:
    """Commit rows until the load has ended; tables take turns, so commits are equally far apart.

    Args:
        tables: The tables.
        wait: Waits the given seconds and returns True if the feed must end now.
    """
    begun, count = time.monotonic(), len(tables.tables)
    length_s, step_s, turn, ended = (len(tables.total) - 1) * tables.period_s, COMMIT_S / count, 0, False
    while not ended and turn * step_s < length_s:
        ended = wait(begun + turn * step_s - time.monotonic())
        tables.commit(turn % count, time.monotonic() - begun)
        turn += 1
    time_s = time.monotonic() - begun if ended else length_s
    for table in range(count):
        tables.commit(table, time_s)


def main() -> None:
    """Play the load of the input."""
    folder, load = Path(sys.stdin.readline().strip()), json.loads(sys.stdin.readline())
    made = [SourceTable(folder / name, SCHEMA, CONTENT) for name in load["streams"]]
    total = np.vstack([np.zeros(len(made)), np.cumsum(load["rates"], axis=0) * load["period_s"]])
    print("ready", flush=True)
    if sys.stdin.readline():
        print(time.time(), flush=True)
        play(Tables(made, total, load["period_s"]), _closed)


def _closed(seconds: float) -> bool:
    """Return whether the input was closed, for which it waits some seconds."""
    return bool(select.select([sys.stdin], [], [], max(0.0, seconds))[0])


class Writer:
    """The process, seen from the benchmark.

    Args:
        process: It has printed ``ready``.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self) -> float:
        """Let it begin, and return when it did, seconds since 1970.

        Raises:
            RuntimeError: If it has failed.
        """
        return float(self._tell("begin") or self._failed())

    def end(self, *, now: bool = False) -> None:
        """Wait until it has committed everything.

        Args:
            now: Whether to end it before the end of the load.

        Raises:
            RuntimeError: If it has failed.
        """
        assert self._process.stdin is not None
        if now:
            self._process.stdin.close()
        if self._process.wait() != 0:
            self._failed()

    def _tell(self, line: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def _failed(self) -> str:
        raise RuntimeError(f"the writer ended with {self._process.wait()}")


@contextmanager
def writing(folder: Path, load: Load, log: Path) -> Iterator[Writer]:
    """Start the process, which creates the tables; leave nothing of it behind.

    Args:
        folder: Folder of the tables.
        load: The load.
        log: File for its errors.

    Raises:
        RuntimeError: If it does not start.
    """
    argv = [sys.executable, "-m", "benchmarks.fleet.writer"]
    given = {"streams": load.streams, "rates": load.rates.tolist(), "period_s": load.period_s}
    env, pipe = {**os.environ, "PYTHONPATH": str(SOURCES)}, subprocess.PIPE
    with log.open("ab") as errors:
        process = subprocess.Popen(argv, cwd=REPO, env=env, stdin=pipe, stdout=pipe, stderr=errors, text=True)
    try:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{folder}\n{json.dumps(given)}\n")
        process.stdin.flush()
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"the writer does not start: {log.read_text(errors='replace')[-1500:]}")
        yield Writer(process)
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
