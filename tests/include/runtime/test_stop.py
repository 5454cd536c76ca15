"""When a driver and its queries stop: at the end of a batch, after the windows that its rows closed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from millrace.runtime.stop import end_at_boundary, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
MINUTES_OF_CLOSING = 500
PATIENCE_S = 600.0
FORKS = """
import os, signal, threading, time
from millrace.runtime.stop import StopRequest

stopped = threading.Event()
request = StopRequest(stopped.set)
request.install()
ready, begun = os.pipe()
child = os.fork()
if child == 0:
    os.write(begun, b"x")
    time.sleep(60)
    os._exit(0)
os.read(ready, 1)
os.kill(child, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), request.requested)
os.kill(os.getpid(), signal.SIGTERM)
print(stopped.wait(600))
"""


class Folders:
    """A source of minutes, and the hours closed by a watermark, with a gate in each batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.source, self.folder = spark, folder / "source", folder
        self.open, self.held = folder / "open", folder / "held"

    def add(self, *minutes: int) -> None:
        from pyspark.sql import functions as sf

        rows = self.spark.createDataFrame([(m,) for m in minutes], "m int")
        rows = rows.select(sf.expr("timestamp_seconds(m * 60)").alias("at"))
        rows.coalesce(1).write.format("delta").mode("append").save(str(self.source))

    def start(self, *, twice: bool = False) -> Any:
        """Start a query that reads one file per batch, once or twice, and holds each batch until the gate is open."""
        from pyspark.sql import functions as sf

        gate, held = self.open, self.held

        def pass_gate(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            for batch in batches:
                while len(batch) and not gate.exists():
                    held.touch()
                    time.sleep(0.01)
                yield batch

        rows = self.spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(str(self.source))
        rows = rows.union(rows) if twice else rows
        hours = rows.mapInPandas(pass_gate, "at timestamp").withWatermark("at", "1 minute")
        counted = hours.groupBy(sf.window("at", "1 hour")).count().select("count")
        return (
            counted.writeStream.format("delta")
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .start(str(self.folder / "results"))
        )

    def results(self) -> list[int]:
        return [r["count"] for r in self.spark.read.format("delta").load(str(self.folder / "results")).collect()]

    def processed(self, query: Any) -> int:
        return sum(p["numInputRows"] for p in query.recentProgress)


@pytest.fixture
def folders(spark: SparkSession, tmp_path: Path) -> Folders:
    return Folders(spark, tmp_path)


def test_signal_to_a_forked_child_ends_it_and_does_not_stop_the_driver() -> None:
    ran = subprocess.run([sys.executable, "-c", FORKS], stdout=subprocess.PIPE, text=True, check=True)
    assert ran.stdout.split() == [str(-signal.SIGTERM), "False", "True"]


def _await(holds: Callable[[], bool], query: Any) -> None:
    while not holds():
        assert running(query), query.exception()
        time.sleep(0.01)


def _in_batch(query: Any) -> bool:
    return bool(query.status["message"].startswith("Processing"))


def _shut_after_three_rows(folders: Folders, *, twice: bool = False) -> Any:
    """A query that has processed three rows, and will be held in its next batch with rows."""
    folders.add(1, 2, 3)
    folders.open.touch()
    query = folders.start(twice=twice)
    _await(lambda: folders.processed(query) >= 3 and not _in_batch(query), query)
    folders.open.unlink()
    return query


def test_end_emits_windows_closed_by_the_last_rows(folders: Folders) -> None:
    query = _shut_after_three_rows(folders)
    folders.add(MINUTES_OF_CLOSING)
    _await(folders.held.exists, query)  # a batch without rows, for the watermark, may come first
    folders.open.touch()
    assert end_at_boundary([query], PATIENCE_S)
    assert folders.processed(query) == 4
    assert folders.results() == [3]


def test_end_of_a_query_that_reads_a_stream_twice_emits_its_last_windows(folders: Folders) -> None:
    query = _shut_after_three_rows(folders, twice=True)
    folders.add(MINUTES_OF_CLOSING)
    _await(folders.held.exists, query)
    folders.open.touch()
    assert end_at_boundary([query], PATIENCE_S)
    assert folders.results() == [6]


def test_end_when_more_rows_wait_then_starts_no_other_batch(folders: Folders) -> None:
    query = _shut_after_three_rows(folders)
    for minute in (70, 71, MINUTES_OF_CLOSING):
        folders.add(minute)
    _await(folders.held.exists, query)  # a batch without rows, for the watermark, may come first
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(end_at_boundary, [query], PATIENCE_S)
        _await(lambda: _told_to_end(query), query)
        folders.open.touch()
        assert ended.result()
    assert folders.processed(query) == 4


def _told_to_end(query: Any) -> bool:
    return str(query._jsq.streamingQuery().state().get()) == "TERMINATED"


@pytest.mark.parametrize("_attempt", range(2))
def test_end_completes_a_batch_that_was_just_starting(folders: Folders, _attempt: int) -> None:
    folders.add(1)
    folders.open.touch()
    query = folders.start()
    _await(lambda: folders.processed(query) > 0, query)
    with ThreadPoolExecutor(1) as pool:
        feed = pool.submit(_feed_until, folders, lambda: not running(query))
        _await(lambda: _plans_batch(query), query)
        assert end_at_boundary([query], PATIENCE_S)
        feed.result()
    execution = query._jsq.streamingQuery()
    assert _newest(execution.offsetLog()) == _newest(execution.commitLog()) > 0


def _feed_until(folders: Folders, ended: Callable[[], bool]) -> None:
    while not ended():
        folders.add(2)


def _plans_batch(query: Any) -> bool:
    calls = [str(call) for call in query._jsq.streamingQuery().queryExecutionThread().getStackTrace()]
    return any("MicroBatchExecution.runBatch(" in call for call in calls) and not any(
        "SQLExecution$" in c for c in calls
    )


def _newest(log: Any) -> int:
    return int(log.getLatestBatchId().get())
