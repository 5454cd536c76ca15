"""One driver of the built-in pipeline under a controlled load, in its own folder: real Spark, real Delta."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from benchmarks.background import in_background
from millrace.control.batch_history import main_query, read_batches
from millrace.drivers.submit import start
from millrace.environment.spark_env import submit_options
from millrace.lake.source_tables import SourceTable
from millrace.lake.store import Lake
from millrace.local.feeds.nycflights import flights
from millrace.local.feeds.replay_clock import SCHEMA, Clock, Replay
from millrace.model.deployment import AppDeployment
from millrace.model.telemetry import BatchMetrics
from millrace.run_folder.arguments import DriverArguments
from millrace.run_folder.discovery import python_driver
from millrace.run_folder.driver_records import app_dir
from millrace.run_folder.driver_records import read as read_record
from millrace.run_folder.generation import allot

NAME = "delays"
SCRIPT = Path(__file__).resolve().parents[1] / "include" / "millrace" / "pipelines" / "scripts" / "delays.py"
PARTITIONS = 8
POLL_S = 0.5
TELEMETRY_PERIOD_S = 6.0


def flight_rows(days: int = 5) -> pa.Table:
    """Return the rows of a replay in order, about 26,000 per day."""
    return pa.concat_tables(list(Replay(Clock(fold_days=28, days=days), flights())))


class Feed:
    """Commits rows to the source table, in order, endlessly.

    Args:
        folder: The source table.
        rows: The rows; after the last one it starts again from the first.
        schema: Their schema.
    """

    def __init__(self, folder: Path, rows: pa.Table, schema: pa.Schema = SCHEMA) -> None:
        self._table = SourceTable(folder, schema, "rows for a benchmark")
        self._rows, self._at, self._numbers = rows, 0, count(1)
        self.committed = 0

    def commit(self, rows: int, parts: int = PARTITIONS) -> None:
        """Commit the next rows as one version with ``parts`` files."""
        if self._at + rows > self._rows.num_rows:
            self._at = 0
        self._table.append(self._rows.slice(self._at, rows), parts, "benchmark", next(self._numbers))
        self._at += rows
        self.committed += rows

    def finish(self) -> None:
        """Commit the last row, which in a replay is a day later than the others: it closes all earlier windows."""
        self._at = self._rows.num_rows - 1
        self.commit(1)

    @contextmanager
    def at(self, rate: Any, tick_s: float = 1.0) -> Iterator[None]:
        """Commit once per tick while the context lasts.

        Args:
            rate: Rows per second as a function of the seconds since the start.
            tick_s: Seconds between two commits.
        """

        def work(ended: threading.Event) -> None:
            begin, due = time.monotonic(), 0.0
            for number in count(1):
                target = rate(number * tick_s) * tick_s
                due += target
                rows = int(due)
                due -= rows
                if rows:
                    self.commit(rows)
                if ended.wait(max(0.0, begin + number * tick_s - time.monotonic())):
                    return

        with in_background(work, "feed"):
            yield


class DelaysApp:
    """A running driver of ``delays``; a context manager that ends it.

    Args:
        root: Folder for its tables, records and log.
        slots: Its cores.
        options: Further arguments of the script.
        memory_mb: Driver memory.
    """

    def __init__(self, root: Path, slots: int, options: tuple[str, ...] = (), memory_mb: int = 1024) -> None:
        self.root, self.slots = root, slots
        self.source = root / "flights"
        self.lake = Lake(root / "lake")
        self._log = root / "driver.log"
        places = (f"--source={self.source}", f"--results={root / 'results'}", f"--checkpoint={root / 'checkpoint'}")
        self._app = AppDeployment(str(SCRIPT), (*places, *options), slots, memory_mb, PARTITIONS)
        self._arguments = DriverArguments(
            pipeline=NAME,
            app=NAME,
            generation=allot(app_dir(root / "run", NAME, NAME)),
            version=1,
            slots=slots,
            epoch=0,
            run_dir=root / "run",
            lake=str(root / "lake"),
            period_s=TELEMETRY_PERIOD_S,
            ready_deadline_s=120.0,
            stop_deadline_s=60.0,
            script=SCRIPT,
            args=self._app.args,
        )

    def __enter__(self) -> DelaysApp:
        self._process = start(submit_options(), self._app, self._arguments, self._log)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        record = read_record(self.root / "run", NAME, NAME, self._arguments.generation)
        python = python_driver(record)
        if python is not None:
            python.signal(signal.SIGTERM)
        else:
            self._process.terminate()
        self._process.wait(120)

    def batches(self, since: datetime | None = None) -> list[BatchMetrics]:
        """Return the committed batches in telemetry, only those that ended after ``since`` if given."""
        rows = read_batches(self.lake, NAME, NAME, datetime.now(UTC))
        ordered = main_query(rows, datetime.min.replace(tzinfo=UTC)) if rows else ()
        return [b for b in ordered if since is None or b.time > since]

    def await_batches(
        self, least: int, since: datetime | None = None, rows: int = 1, deadline_s: float = 300.0
    ) -> list[BatchMetrics]:
        """Wait until ``least`` batches have at least ``rows`` rows, and return them.

        Args:
            least: How many to wait for.
            since: Only batches that ended after this time.
            rows: Fewest rows of a batch that counts.
            deadline_s: Longest wait.

        Raises:
            RuntimeError: If they do not arrive in time, with the end of the driver's log.
        """
        end = time.monotonic() + deadline_s
        while time.monotonic() < end and self._process.poll() is None:
            found = [b for b in self.batches(since) if b.rows_in >= rows]
            if len(found) >= least:
                return found
            time.sleep(POLL_S)
        raise RuntimeError(f"{least} batches did not come: {self._log.read_text(errors='replace')[-2000:]}")
