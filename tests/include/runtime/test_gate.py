"""What the driver remembers about queries that a script starts and ends repeatedly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.readwriter import DataStreamWriter

from millrace.model.errors import MillraceError
from millrace.run_folder import driver_records
from millrace.run_folder.lock import CHECKPOINT, holders
from millrace.runtime.agent.placement import StatePlacement
from millrace.runtime.gate import Gate
from millrace.runtime.journal import Journal
from millrace.runtime.journal_listener import JournalListener
from millrace.runtime.query_events import QueryEvents
from tests.include.runtime.test_checkpoint_locks import elsewhere
from tests.include.runtime.test_journal import arguments

pytestmark = pytest.mark.spark

PATIENCE_S = 400
KEPT = 1


@pytest.fixture
def gate(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    for name in ("start", "toTable"):  # restore the functions that the gate replaces
        monkeypatch.setattr(DataStreamWriter, name, getattr(DataStreamWriter, name))
    journal, events = Journal(arguments(tmp_path / "run")), []

    def listen(session: Any) -> None:
        events.append(QueryEvents(session, JournalListener(journal, made.queries)))

    made = Gate(arguments(tmp_path / "run"), journal, lambda frame: None, listen)
    made.install()
    yield made
    for query in made.queries:
        query.stop()
    made.release()
    assert len(events) == 1, "one registration for all sessions"
    events[0].close()


def rows(session: Any) -> Any:
    return session.readStream.format("rate-micro-batch").option("rowsPerBatch", 4).load()


def once(session: Any, checkpoint: Path, name: str | None = None) -> None:
    writer = rows(session).writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    writer = writer.queryName(name) if name else writer
    assert writer.trigger(once=True).start().awaitTermination(PATIENCE_S)


def fail(frame: Any, number: int) -> None:
    raise ValueError(f"poison in batch {number}")


def record(folder: Path) -> driver_records.DriverRecord:
    found = driver_records.read(folder / "run", "p", "a", 1)
    assert found is not None
    return found


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_queries_that_run_once_leave_nothing_behind(
    spark: Any, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.runtime.gate.KEPT_ENDED", KEPT)
    for _ in range(2):
        once(spark.newSession(), tmp_path / "same")
    assert len(gate.queries) == 1
    for n in range(KEPT + 2):
        once(spark, tmp_path / f"other-{n}")
        until(lambda n=n: len(record(tmp_path).checkpoints) == n + 2)
    assert len(gate.queries) == KEPT + 1
    locked = [folder.name for folder in tmp_path.iterdir() if holders(folder, CHECKPOINT)]
    assert locked == [f"other-{KEPT + 1}"], "only the newest query's checkpoint is locked"


def test_queries_started_at_the_same_time_all_run(spark: Any, gate: Gate, tmp_path: Path) -> None:
    def start(name: str) -> Any:
        writer = rows(spark).writeStream.format("noop").option("checkpointLocation", str(tmp_path / name))
        return writer.trigger(processingTime="1 second").start()

    with ThreadPoolExecutor(2) as pool:
        started = list(pool.map(start, ("one", "other")))
    assert [query.isActive for query in started] == [True, True]


def test_query_refused_for_its_checkpoint_starts_once_that_is_free(spark: Any, gate: Gate, tmp_path: Path) -> None:
    with elsewhere(tmp_path / "used") as other:
        assert other.stdout is not None and other.stdout.readline() == "True\n"
        with pytest.raises(MillraceError, match=f"Process {other.pid} uses it"):
            once(spark, tmp_path / "used")
        other.kill()
    once(spark, tmp_path / "used")


def test_query_that_fails_while_another_runs_is_on_record_until_restarted(
    spark: Any, gate: Gate, tmp_path: Path
) -> None:
    def start(name: str, sink: Any = None) -> Any:
        writer = rows(spark).writeStream.queryName(name).option("checkpointLocation", str(tmp_path / name))
        writer = writer.foreachBatch(sink) if sink else writer.format("noop")
        return writer.trigger(processingTime="1 second").start()

    serving = start("serves")
    start("breaks", fail)
    until(lambda: record(tmp_path).failed_queries)
    (failure,) = record(tmp_path).failed_queries
    assert (failure.query, failure.error) == ("breaks", "ValueError: poison in batch 0")
    assert serving.isActive and {query.name for query in gate.queries} == {"serves", "breaks"}
    start("breaks")
    until(lambda: not record(tmp_path).failed_queries)
    assert [query.isActive for query in gate.queries] == [True, True]


def test_partitions_of_runs_that_ended_are_forgotten(spark: Any, gate: Gate, tmp_path: Path) -> None:
    placement = StatePlacement(spark)
    for _ in range(2):
        counted = rows(spark).groupBy("value").count().writeStream.format("noop").outputMode("update")
        query = counted.option("checkpointLocation", str(tmp_path / "c")).trigger(processingTime="1 second").start()
        until(lambda query=query: query.lastProgress and placement.partitions(query))
        for partition in placement.partitions(query):
            placement.executor_of(partition)
        placement.batches([query])
        assert placement.runs() == {str(query.runId)}
        query.stop()
    placement.batches([])
    assert placement.runs() == set()
