"""A stream of a fleet that left a node and comes back to the same driver is no gap in the telemetry."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from millrace.control.quality.frames import batches_frame
from millrace.lake.rows_since import read_since
from millrace.model.telemetry import BatchMetrics
from tests.include.control.synthetic import START, lake_of

NODES = ("node0", "node1")


def ran(node: str, at_s: float, batch: int, source_end: int, rows: int = 10, backlog: int = 0) -> BatchMetrics:
    """A batch of a stream; one without rows is a marker of the one that runs."""
    durations_ms = {"triggerExecution": 500} if rows else {}
    return BatchMetrics(
        "ingest", node, "a", START + timedelta(seconds=at_s), 1, 0, batch, 2, rows,
        durations_ms=durations_ms, source_end=source_end, backlog_rows=backlog,
    )  # fmt: skip


AWAY = [
    ran("node0", 0, 0, 100),
    ran("node0", 5, 1, 110),
    *(ran("node1", 10 + 5 * number, 2 + number, 10 * number) for number in range(100)),
    ran("node0", 510, 101, 1130, rows=0, backlog=20),
    ran("node0", 515, 102, 1140),
]


def gaps(folder: Path, rows: Sequence[BatchMetrics], nodes: Sequence[str] = NODES) -> tuple[float, float]:
    """Return the longest silence, seconds, and the most unread rows."""
    frame = batches_frame(read_since(lake_of(folder, rows), "telemetry/batches", "ingest", -1), rows[-1].time, nodes)
    return frame["silent_s"].max(), frame["unread_rows"].max()


def test_stream_that_comes_back_was_neither_silent_nor_unread(tmp_path: Path) -> None:
    silent_s, unread_rows = gaps(tmp_path, AWAY)
    assert silent_s <= 5 and unread_rows == 0


def test_query_of_another_app_is_another_query(tmp_path: Path) -> None:
    silent_s, unread_rows = gaps(tmp_path, AWAY, nodes=())
    assert silent_s > 400 and unread_rows > 900


def test_silence_on_one_node_still_counts(tmp_path: Path) -> None:
    silent_s, _ = gaps(tmp_path, [*AWAY, ran("node0", 1000, 103, 2000)])
    assert silent_s > 400
