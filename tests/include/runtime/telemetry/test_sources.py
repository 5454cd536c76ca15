"""The arrival rate of real sources in the lake, compared with the true arrivals."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from millrace.control.arrivals import arrival_basis, with_arrivals
from millrace.control.batch_history import History, main_query
from millrace.control.rates import batch_rows_limit, rates
from millrace.lake.row_codec import batch_from_row
from millrace.lake.store import Lake
from millrace.model.arrival import ArrivalBasis
from millrace.model.telemetry import BatchMetrics
from millrace.runtime.telemetry.batches import AppIdentity
from millrace.runtime.telemetry.sources import kinds, unread_files
from millrace.runtime.telemetry.sources.api import Position, Progress, Source, SourcePosition
from tests.include.runtime.telemetry.arriving import CHUNK_S, Write, arriving, files, lines, table

pytestmark = pytest.mark.spark

ROWS_PER_S = 600
PERIOD_S = 10
PATIENCE_S = 600
Frame = Any


@pytest.fixture
def measured(spark: Any, tmp_path: Path) -> Iterator[Callable[[Frame], Callable[[], list[BatchMetrics]]]]:
    """Start a query and return a reader of its telemetry."""
    from millrace.runtime.telemetry.driver_telemetry import Telemetry

    telemetry = Telemetry(spark, AppIdentity("p", "a", 1, 1, 4), tmp_path / "lake", 5)

    def start(frame: Frame, **options: Any) -> Callable[[], list[BatchMetrics]]:
        writer = frame.writeStream.format("noop").queryName("q").options(**options)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

        def read() -> list[BatchMetrics]:
            assert query.exception() is None
            telemetry.flush()
            rows = Lake(tmp_path / "lake").rows("select * from batches", "telemetry/batches")
            return [batch_from_row(row) for row in rows]

        return read

    yield start
    for query in spark.streams.active:
        query.stop()
    telemetry.close()


def history(rows: list[BatchMetrics]) -> History:
    ordered = with_arrivals(main_query(rows, min(r.time for r in rows)))
    until = ordered[-1].time
    return History(ordered, until - timedelta(seconds=PERIOD_S), until)


def awaited(read: Callable[[], list[BatchMetrics]], enough: Callable[[History], bool]) -> History:
    """Return the history as soon as it is long enough."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        rows = read()
        if rows and enough(history(rows)):
            return history(rows)
        assert time.monotonic() < deadline, rows[-3:]
        time.sleep(0.3)


def is_long(found: History) -> bool:
    """Say if the period starts after the checkpoint's first batches, which waited for cold workers."""
    return len(found.batches) > 4 and found.batches[2].time < found.since


def is_overloaded(found: History) -> bool:
    known = rates(found).arrival_rows_per_s is not None
    return known and len(found.batches) > 3 and found.batches[-1].duration_s > PERIOD_S


def slow(seconds_per_row: float) -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    def work(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for part in parts:
            time.sleep(seconds_per_row * len(part))
            yield part

    return work


def reading(spark: Any, path: Path, kind: str) -> Frame:
    return spark.readStream.schema("id long").format(kind).load(str(path))


OTHER_FILES = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("csv", "parquet")]


@pytest.mark.parametrize("kind", ["json", *OTHER_FILES, "delta", "socket", "rate"])
def test_arrival_rate_in_the_lake_matches_the_arrivals(
    spark: Any, tmp_path: Path, measured: Callable[..., Any], kind: str
) -> None:
    with ExitStack() as stack:
        write: Write | None = None
        if kind == "rate":
            frame = spark.readStream.format("rate").option("rowsPerSecond", ROWS_PER_S).load().selectExpr("value AS id")
        elif kind == "socket":
            port, write = stack.enter_context(lines())
            frame = spark.readStream.format("socket").options(host="127.0.0.1", port=port).load()
        else:
            write = table(tmp_path / "in") if kind == "delta" else files(tmp_path / "in", kind)
            frame = spark.readStream.format("delta").load(str(tmp_path / "in")) if kind == "delta" else None
            frame = reading(spark, tmp_path / "in", kind) if frame is None else frame
        arrivals = stack.enter_context(arriving(write, ROWS_PER_S)) if write else None
        read = measured(frame.mapInPandas(slow(0.0002), frame.schema))
        found = awaited(read, lambda h: is_long(h) and rates(h).arrival_rows_per_s is not None)
    told = rates(found)
    truth = arrivals.rate(found.since.timestamp(), found.until.timestamp()) if arrivals else ROWS_PER_S
    # the rate source creates a second's rows at once, and a file counts at any time of the batch that lists it
    longest_s = max(1.0, *(b.duration_s for b in found.batches[1:]))  # the first one starts workers
    assert told.arrival_rows_per_s == pytest.approx(truth, abs=ROWS_PER_S * longest_s / PERIOD_S)
    assert told.backlog_rows is not None and told.backlog_rows < 2 * (PERIOD_S + longest_s) * ROWS_PER_S
    assert arrival_basis(found) is (ArrivalBasis.COUNTED if kind == "delta" else ArrivalBasis.TAKEN)


@pytest.mark.slow
def test_arrival_rate_of_an_overloaded_app_is_not_its_own_pace(
    spark: Any, tmp_path: Path, measured: Callable[..., Any]
) -> None:
    write = files(tmp_path / "in", "json")
    with arriving(write, ROWS_PER_S) as arrivals:
        frame = reading(spark, tmp_path / "in", "json").coalesce(1)
        read = measured(frame.mapInPandas(slow(2.0 / ROWS_PER_S), frame.schema))
        found = awaited(read, is_overloaded)
    told = rates(found)
    truth = arrivals.rate(found.since.timestamp(), found.until.timestamp())
    assert told.arrival_rows_per_s == pytest.approx(truth, rel=0.05)
    last = found.batches[-1]
    assert last.rows_in / last.duration_s < 0.75 * truth
    waiting = arrivals.rate(last.time.timestamp() - last.duration_s, last.time.timestamp()) * last.duration_s
    assert told.backlog_rows == pytest.approx(waiting, rel=0.1)


def test_silence_of_a_source_that_counts_nothing_is_a_rate_of_zero(
    spark: Any, tmp_path: Path, measured: Callable[..., Any]
) -> None:
    with arriving(files(tmp_path / "in", "json"), ROWS_PER_S):
        read = measured(reading(spark, tmp_path / "in", "json"))
        awaited(read, lambda h: len(h.batches) > 2)
    found = awaited(read, lambda h: len(h.in_period(h.rows)) > 1 and not h.in_period(h.batches))
    told = rates(found)
    assert (told.arrival_rows_per_s, told.backlog_rows) == (0.0, 0)


@pytest.mark.slow
def test_arrival_rate_of_a_limited_file_source_shows_in_its_unread_files(
    spark: Any, tmp_path: Path, measured: Callable[..., Any]
) -> None:
    with arriving(files(tmp_path / "in", "json"), ROWS_PER_S) as arrivals:
        frame = spark.readStream.schema("id long").option("maxFilesPerTrigger", 2).json(str(tmp_path / "in"))
        telemetry = measured(frame.coalesce(1).mapInPandas(slow(1.5 / ROWS_PER_S), frame.schema))
        found = awaited(telemetry, lambda h: is_long(h) and (h.newest.backlog_rows or 0) > 5 * ROWS_PER_S)
    told, newest = rates(found), found.newest
    truth = arrivals.rate(found.since.timestamp(), found.until.timestamp())
    assert arrival_basis(found) is ArrivalBasis.LISTED
    # files are listed after the batch, on a busy machine seconds later
    assert told.arrival_rows_per_s == pytest.approx(truth, abs=2 * ROWS_PER_S / PERIOD_S)
    by_its_end = float(np.interp(newest.time.timestamp(), arrivals.times, arrivals.rows))
    read = sum(b.rows_in for b in found.batches)
    assert by_its_end - ROWS_PER_S < told.backlog_rows + read < arrivals.rows[-1] + ROWS_PER_S
    assert newest.rows_in / newest.duration_s < 0.75 * truth
    full = [b.rows_in for b in found.batches]  # of two files, which differ in size
    assert min(full) <= (batch_rows_limit(found.batches) or 0) <= max(full)
    silent = rates(awaited(telemetry, lambda h: len(h.in_period(h.rows)) > 1 and not h.in_period(h.batches)))
    assert (silent.arrival_rows_per_s, silent.backlog_rows) == (0.0, 0)


def test_successor_on_silent_files_marks_them_without_a_batch(
    spark: Any, tmp_path: Path, measured: Callable[..., Any]
) -> None:
    with arriving(files(tmp_path / "in", "json"), ROWS_PER_S) as arrivals:
        while len(arrivals.rows) < 4:
            time.sleep(CHUNK_S)
    frame = reading(spark, tmp_path / "in", "json")
    before = frame.writeStream.format("noop").queryName("q").option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert before.trigger(availableNow=True).start().awaitTermination(PATIENCE_S)
    found = awaited(measured(frame), lambda h: len(h.rows) > len(h.batches) + 1)
    assert len(found.batches) == 1  # before
    assert {(row.backlog_rows, row.arrival_basis) for row in found.rows[1:]} == {(0, ArrivalBasis.TAKEN)}
    assert rates(found).arrival_rows_per_s == 0.0


def test_limited_source_of_too_many_files_is_not_listed(
    spark: Any, tmp_path: Path, measured: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread_files, "MOST_FILES", 5)
    with arriving(files(tmp_path / "in", "json"), ROWS_PER_S) as arrivals:
        while len(arrivals.rows) < 8:
            time.sleep(CHUNK_S)
        frame = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
        found = awaited(measured(frame), lambda h: len(h.batches) > 2)
    assert {b.arrival_basis for b in found.batches[1:]} == {ArrivalBasis.READ}


class MicroBatches(SourcePosition):
    """Counts the rows of ``rate-micro-batch``, and 40 more that wait."""

    @classmethod
    def of(cls, source: Source) -> MicroBatches | None:
        kind = {str(stream.getClass().getSimpleName()) for stream in source.streams}
        return cls() if kind == {"RatePerMicroBatchStream"} else None

    def after(self, progress: Progress) -> Position:
        start, end = progress.get("startOffset") or {"offset": 0}, progress["endOffset"]
        read = end["offset"] - start["offset"]
        return Position(40, end["offset"] + 40, read, ArrivalBasis.COUNTED, {"rate/0": 40})

    def at_rest(self, end: Any) -> Position:
        return Position(40, end["offset"] + 40, 0, ArrivalBasis.COUNTED)


def test_position_from_a_class_for_another_source_is_in_the_lake(
    spark: Any, measured: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "KINDS", (*kinds.KINDS, MicroBatches.of))
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load().selectExpr("value AS id")
    found = awaited(measured(rows), lambda h: len(h.batches) > 2)
    told = [(b.rows_in, b.backlog_rows, b.source_end, b.arrival_basis, dict(b.lag)) for b in found.batches[:2]]
    assert told == [(100, 40, 100 * n + 40, ArrivalBasis.COUNTED, {"rate/0": 40}) for n in (1, 2)]


def test_limited_source_that_reports_nothing_gives_a_lower_bound(
    spark: Any, tmp_path: Path, measured: Callable[..., Any]
) -> None:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load().selectExpr("value AS id")
    found = awaited(measured(rows.mapInPandas(slow(0.005), rows.schema)), is_long)
    assert arrival_basis(found) is ArrivalBasis.AT_LEAST
    last = found.in_period(found.batches)
    paced = sum(b.rows_in for b in last) / sum(b.duration_s for b in last)
    told = rates(found).arrival_rows_per_s
    assert told is not None and 0.5 * paced < told < 1.15 * paced
