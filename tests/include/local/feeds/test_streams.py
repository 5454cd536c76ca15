"""The feed of streams as a process: redirected by Deployments, killed at any time, restarted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.lake.deployments import DeploymentStore
from millrace.lake.source_tables import is_table, query
from millrace.lake.store import Lake
from millrace.local.feeds.replay_clock import Clock, Replay
from millrace.model.deployment import Deployment
from tests.flights import flights

ROOT = Path(__file__).resolve().parents[4]
CLOCK = Clock(fold_days=7, days=1, day_s=8, start_hour=5, tick_s=0.1)
ARGS = ["--fold-days=7", "--day-s=8", "--start-hour=5", "--tick-s=0.1", "--parts=2", "--report-s=0.5"]


class Feed:
    """A feed into two tables, and the Deployments that it obeys."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lake = folder, Lake(folder / "lake")
        self.lake.create()
        self.tables = [folder / "north", folder / "south"]
        self.streams = sorted({f"{o}/{c}" for o, c in flights()[["origin", "carrier"]].drop_duplicates().to_numpy()})
        self.version = 0

    def start(self) -> subprocess.Popen[str]:
        ingest = [word for table in self.tables for word in ("--ingest", str(table))]
        command = [
            sys.executable,
            "-m",
            "millrace.local.feeds.streams",
            *ingest,
            "--pipeline=p",
            f"--lake={self.lake.location}",
        ]
        return subprocess.Popen(
            [*command, *ARGS], cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def place(self, table: int) -> None:
        """Request every second stream at one table, the others at the other."""
        wished = {s: (n + table) % 2 for n, s in enumerate(self.streams)}
        made = Deployment("p", 1, True, {}, ingest=wished)
        self.version = DeploymentStore(self.lake).commit(made, self.version or None).version

    def await_commits(self, more: int, process: subprocess.Popen[str]) -> None:
        self._await(lambda: self._commits() >= more, process)

    def await_report(self, wished: Callable[[dict[str, str]], bool], process: subprocess.Popen[str]) -> None:
        self._await(lambda: wished(self.entries()), process)

    def entries(self) -> dict[str, str]:
        rows = self.lake.rows("select stream, app from streams order by time", "telemetry/streams")
        return {r["stream"]: r["app"] for r in rows}

    def row_ids(self) -> list[int]:
        found = [query("select row_id from t", t=table)["row_id"].to_pylist() for table in self.tables]
        return sorted(i for ids in found for i in ids)

    def _commits(self) -> int:
        return sum(len(list((t / "_delta_log").glob("*.json"))) for t in self.tables if is_table(t))

    @staticmethod
    def _await(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
        while not holds():
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path)


@pytest.mark.slow
def test_redirected_streams_of_a_killed_feed_keep_every_row_once(
    feed: Feed,
) -> None:
    for round_ in range(4):
        process = feed.start()
        feed.place(round_ % 2)
        feed.await_commits((round_ + 1) * 20, process)
        process.kill()
        process.communicate()
    feed.place(0)
    process = feed.start()
    out, err = process.communicate()
    assert process.returncode == 0, err
    rows = Replay(CLOCK, flights()).rows
    assert f"done: {rows} rows" in out
    assert feed.row_ids() == list(range(1, rows + 1))
    told = feed.lake.rows("select sum(rows) as n from streams", "telemetry/streams")[0]["n"]
    unreported = (CLOCK.ticks + 1) % 5
    assert told == rows - sum(
        Replay(CLOCK, flights()).tick(CLOCK.ticks + 1 - n).num_rows for n in range(1, unreported + 1)
    )


def test_streams_enter_the_table_of_their_deployment(feed: Feed) -> None:
    feed.place(0)
    process = feed.start()
    try:
        feed.await_report(lambda e: e.get("EWR/UA") == _table(feed, 0), process)
        feed.place(1)
        feed.await_report(lambda e: e.get("EWR/UA") == _table(feed, 1), process)
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert "EWR/UA was redirected to" in out
    waits = feed.lake.rows("select latency_ms from streams where latency_ms is not null", "telemetry/streams")
    assert {round(w["latency_ms"]) for w in waits} == {100}, "a tick each"


def _table(feed: Feed, turn: int) -> str:
    return ("north", "south")[(feed.streams.index("EWR/UA") + turn) % 2]


def test_feed_when_columns_do_not_exist_then_lists_the_existing_ones(feed: Feed) -> None:
    command = [sys.executable, "-m", "millrace.local.feeds.streams", "--ingest", str(feed.tables[0]), "--pipeline=p"]
    command += [f"--lake={feed.lake.location}", "--stream=origin,airline"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "airline" in ended.stderr and "carrier" in ended.stderr and "Traceback" not in ended.stderr
