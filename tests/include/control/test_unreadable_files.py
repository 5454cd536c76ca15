"""Evaluations with unreadable files, recreated tables, and long pauses."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from millrace.lake.decisions import DecisionStore
from millrace.lake.memories import MemoryStore
from millrace.lake.rows_since import CATCH_UP_ROWS
from millrace.lake.store import Lake
from millrace.model.decision import Action, Decision
from tests.include.control.world import NAME, World, good_rows, world, write, write_app

BATCHES = "telemetry/batches"


@pytest.fixture
def w(tmp_path: Path) -> World:
    made = world(tmp_path)
    made.run()
    made.plant.arrival = 400
    return made


def evaluate(w: World) -> Decision:
    return w.loop.decide(w.loop.observe())


def report(w: World, first: int, last: int) -> Path:
    """Commit good batches, and return the data file that contains them."""
    w.clock.wait(20)
    there = set(w.lake.path(BATCHES).rglob("*.parquet"))
    w.report(first, last)
    return next(f for f in w.lake.path(BATCHES).rglob("*.parquet") if f not in there)


def spoil(file: Path, how: str) -> None:
    """Make a data file unreadable for processes that have not read it yet."""
    file.unlink()
    if how == "garbage":
        file.write_bytes(b"no parquet")


@pytest.mark.parametrize("how", ["garbage", "missing"])
def test_evaluation_when_a_new_file_cannot_be_read_then_holds_once_and_names_it(w: World, how: str) -> None:
    evaluate(w)
    file = report(w, 31, 50)
    spoil(file, how)
    held = evaluate(w)
    assert (held.action, held.reason_code) == (Action.HOLD, "unreadable_file")
    assert file.name in held.sentence
    assert DecisionStore(w.lake).last(NAME) == held
    report(w, 51, 70)
    assert evaluate(w).reason_code == "fits"


def test_evaluation_holds_once_on_a_broken_old_file(w: World) -> None:
    evaluate(w)
    old = report(w, 31, 50)
    evaluate(w)
    spoil(old, "garbage")
    w.lake.files, w.loop.lake = Lake(w.lake.location).files, w.lake  # another process
    report(w, 51, 70)
    held = evaluate(w)
    assert held.reason_code == "unreadable_file" and old.name in held.sentence
    report(w, 71, 90)
    assert evaluate(w).reason_code == "fits"


def test_evaluation_does_not_read_a_file_that_it_does_not_need(w: World) -> None:
    old = list(w.lake.path(BATCHES).rglob("*.parquet"))
    w.clock.wait(7200)
    write(w.lake, *good_rows(31, 300, w.clock()))
    write_app(w.lake, w.clock())
    evaluate(w)
    for file in old:
        spoil(file, "garbage")
    w.lake.files = Lake(w.lake.location).files
    report(w, 301, 320)
    assert evaluate(w).reason_code == "fits"
    assert not w.lake.unreadable


@pytest.mark.parametrize("table", ["control/decisions", "control/memory", "control/observations"])
def test_evaluation_when_old_control_files_break_then_continues(w: World, table: str) -> None:
    first, last = 31, 50
    for _ in range(3):
        evaluate(w)
        report(w, first, last)
        first, last = first + 20, last + 20
    files = sorted(w.lake.path(table).rglob("*.parquet"), key=lambda f: f.stat().st_mtime)
    for file in files[:-1]:
        spoil(file, "garbage")
    w.lake.files = Lake(w.lake.location).files
    decision = evaluate(w)
    assert decision.reason_code == "fits" and decision.signals is not None
    assert MemoryStore(w.lake).latest(NAME, "flow") == {"looks": 4}


def test_evaluation_when_the_memory_cannot_be_read_then_the_hold_says_so(w: World) -> None:
    evaluate(w)
    seen_by = w.lake.path("control/memory") / "_delta_log" / "00000000000000000001.json"
    report(w, 31, 50)
    observed = w.loop.observe()
    seen_by.write_text("{broken")
    decision = w.loop.decide(observed)
    assert (decision.action, decision.reason_code) == (Action.HOLD, "memory_unreadable")
    assert "control/memory" in decision.sentence


def test_evaluation_starts_over_on_a_new_telemetry_table(w: World) -> None:
    for first in (31, 51, 71):
        report(w, first, first + 19)
        before = evaluate(w)
    shutil.rmtree(w.lake.path(BATCHES))
    report(w, 0, 19)
    assert w.lake.version(BATCHES) < (before.cursor_version or 0)
    again = evaluate(w)
    assert "recreated" in again.sentence and again.reason_code == "fits"
    assert again.cursor_version == w.lake.version(BATCHES) and again.cursor_table != before.cursor_table
    report(w, 20, 39)
    later = evaluate(w)
    assert later.reason_code == "fits" and "recreated" not in later.sentence


def test_evaluation_knows_a_new_table_by_its_id(w: World) -> None:
    evaluate(w)
    shutil.rmtree(w.lake.path(BATCHES))
    for first in range(0, 100, 20):
        report(w, first, first + 19)
    assert "recreated" in evaluate(w).sentence


@pytest.mark.parametrize("ahead", [True, False])
def test_evaluation_trusts_a_cursor_without_table_if_not_ahead(w: World, ahead: bool) -> None:
    version = w.lake.version(BATCHES) + (1000 if ahead else 0)
    DecisionStore(w.lake).record(
        Decision("d", NAME, w.clock(), Action.HOLD, "fits", "", cursor_version=version, cursor_until=w.clock())
    )
    report(w, 31, 50)
    assert ("recreated" in evaluate(w).sentence) is ahead


def test_observations_when_the_table_is_recreated_then_are_stored_again(w: World) -> None:
    report(w, 31, 50)
    evaluate(w)
    shutil.rmtree(w.lake.path(BATCHES))
    report(w, 0, 19)
    evaluate(w)
    assert len(w.lake.rows("select * from observations", "control/observations")) == 2


def test_evaluation_reads_the_newest_rows_of_very_many(w: World) -> None:
    evaluate(w)
    w.clock.wait(CATCH_UP_ROWS + 500)
    write(w.lake, *good_rows(31, 400, w.clock() - timedelta(seconds=CATCH_UP_ROWS)))
    write(w.lake, *good_rows(401, 400 + CATCH_UP_ROWS, w.clock()))
    write_app(w.lake, w.clock())
    decision = evaluate(w)
    assert decision.reason_code == "fits" and f"newest {CATCH_UP_ROWS} rows" in decision.sentence
