"""The replay as a process: killed, stopped, restarted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from millrace.lake.source_tables import SourceTable, query
from millrace.local.feeds.feed import TRANSACTION
from millrace.local.feeds.replay_clock import SCHEMA, Clock, Replay
from tests.flights import flights

ROOT = Path(__file__).resolve().parents[4]
CLOCK = Clock(fold_days=7, days=1, day_s=6, start_hour=5, tick_s=0.1)
ARGS = ["--fold-days=7", "--day-s=6", "--start-hour=5", "--tick-s=0.1", "--parts=4"]


@pytest.fixture(scope="module")
def replay() -> Replay:
    return Replay(CLOCK, flights())


def _start(table: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "millrace.local.feeds.flights", "--table", str(table), *ARGS, *more]
    return subprocess.Popen(
        command, cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def _await_tick(table: Path, number: int, process: subprocess.Popen[str]) -> None:
    log = table / "_delta_log"
    while process.poll() is None:
        if log.is_dir() and len(list(log.glob("*.json"))) > number:
            return
        time.sleep(0.02)
    raise AssertionError(f"ended before tick {number}: {process.communicate()}")


def _row_ids(table: Path) -> list[int]:
    return [r["row_id"] for r in query("select row_id from t order by row_id", t=table).to_pylist()]


@pytest.mark.slow
def test_replay_killed_repeatedly_sends_each_row_once(tmp_path: Path, replay: Replay) -> None:
    table = tmp_path / "flights"
    for ticks in (10, 25):
        process = _start(table)
        _await_tick(table, ticks, process)
        process.kill()
        process.communicate()
    assert SourceTable(table, SCHEMA, CLOCK.content).last(TRANSACTION) < CLOCK.ticks, "killed in the middle"
    finished = _start(table)
    out, err = finished.communicate()
    assert finished.returncode == 0, err
    assert f"done: {replay.rows} rows" in out
    assert _row_ids(table) == list(range(1, replay.rows + 1))


def test_replay_when_terminated_then_ends_cleanly_between_two_ticks(tmp_path: Path, replay: Replay) -> None:
    table = tmp_path / "flights"
    process = _start(table)
    _await_tick(table, 10, process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "run the same command to continue from there" in out
    last = SourceTable(table, SCHEMA, CLOCK.content).last(TRANSACTION)
    assert _row_ids(table) == list(range(1, sum(replay.tick(n).num_rows for n in range(last + 1)) + 1))


def test_replay_refuses_other_settings_on_the_same_table(tmp_path: Path) -> None:
    table = tmp_path / "flights"
    SourceTable(table, SCHEMA, CLOCK.content)
    process = _start(table, "--fold-days=8")
    _, err = process.communicate()
    assert process.returncode == 1
    assert "use the same settings, or a new folder" in err
    assert "Traceback" not in err
