"""A node decides about streams that wait, hang or cannot be looked at; no Spark."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from millrace.fleet.assignment import Assignment
from millrace.fleet.node import Node
from millrace.fleet.queries import Blocked, NodeSettings, StreamQueries, _Run
from millrace.fleet.status import StreamStatus
from millrace.fleet.streams import Phase
from millrace.jobs.fleet_node import settings_of
from millrace.run_folder.arguments import DriverArguments


class Reported:
    """A node on a session that does nothing, and what it reports."""

    def __init__(self, folder: Path, assigned: Assignment) -> None:
        self.assigned, self.streams, self.now = assigned, dict[str, StreamStatus](), 0.0
        settings = NodeSettings("s3://bucket/checkpoints", folder)
        self.node = Node(MagicMock(), MagicMock(), settings, lambda: self.assigned, self.take)

    def take(self, version: int, streams: tuple[StreamStatus, ...]) -> None:
        self.streams = {stream.stream: stream for stream in streams}

    def until(self, reached: Callable[[], bool]) -> None:
        """Let the node decide until something is reported; each time two seconds have passed for it."""
        for _ in range(500):
            self.now += 2.0
            self.node._step(self.now)
            if reached():
                return
            time.sleep(0.01)
        raise AssertionError(str(self.streams))


def test_lock_that_cannot_be_looked_at_fails_its_stream_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(queries: StreamQueries, name: str, wanted: Callable[[str], bool]) -> None:
        raise Blocked("p/node1 (pid 7)")

    def holder(queries: StreamQueries, name: str) -> str:
        if name == "stale":
            raise OSError(116, "Stale file handle")
        return "p/node1 (pid 7)"

    monkeypatch.setattr(StreamQueries, "start", start)
    monkeypatch.setattr(StreamQueries, "holder", holder)
    reported = Reported(tmp_path, Assignment(1, frozenset({"stale", "well"})))
    reported.until(lambda: {s.phase for s in reported.streams.values()} == {Phase.FAILED, Phase.BLOCKED})
    assert "Stale file handle" in reported.streams["stale"].error
    assert reported.streams["well"].phase is Phase.BLOCKED


def test_start_that_hangs_is_abandoned_when_its_stream_moves_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = threading.Event()
    monkeypatch.setattr(StreamQueries, "start", lambda *_: hangs.wait(60))
    reported = Reported(tmp_path, Assignment(1, frozenset({"a"})))
    reported.until(lambda: "a" in reported.streams and reported.streams["a"].phase is Phase.STARTING)
    assert not reported.streams["a"].abandoned
    reported.assigned = Assignment(2)
    reported.until(lambda: reported.streams["a"].abandoned)
    hangs.set()


def test_stream_that_does_not_stop_at_once_is_stopped_until_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``spark.sql.streaming.stopTimeout``, ``stop`` raises an error after that time."""
    query, still = MagicMock(), iter([True, True, False])
    query.stop.side_effect = [TimeoutError("the query thread did not stop"), None]
    monkeypatch.setattr("millrace.fleet.queries.end_at_boundary", MagicMock(side_effect=TimeoutError("did not stop")))
    monkeypatch.setattr("millrace.fleet.queries.running", lambda _: next(still))
    queries = StreamQueries(MagicMock(), MagicMock(), NodeSettings("s3://bucket/checkpoints", tmp_path))
    queries._runs["a"] = _Run(MagicMock(), query)
    queries.end("a", 0.1)
    assert query.stop.call_count == 2


def test_streams_that_move_have_the_deadline_of_their_driver(tmp_path: Path) -> None:
    given = argparse.Namespace(checkpoints="/c", options={}, stop_deadline=30.0, most_starts=4)
    limits = {"period_s": 60.0, "ready_deadline_s": 120.0, "stop_deadline_s": 300.0}
    driver = DriverArguments("p", "node0", 1, 1, 2, 0, tmp_path, "lake", **limits, script=Path("fleet_node.py"))
    assert settings_of(given, driver).stop_deadline_s == 300.0
    assert settings_of(given, None).stop_deadline_s == 30.0
