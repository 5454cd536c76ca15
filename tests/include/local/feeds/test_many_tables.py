"""The feed of many tables: seeded, day-shaped, and without gaps after a stop."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from millrace.lake.source_tables import SourceTable, query
from millrace.local.feeds import feed
from millrace.local.feeds.many_tables import BEGINS, KEYLESS, NIGHT, SCHEMA, ManyTables, busy, main, run

SMALL = ManyTables(tables=3, rows_per_s=40.0, days=1.0, day_s=24.0, tick_s=1.0, seed=7)
WORDS = ["--tables=3", "--rows-per-s=40", "--days=1", "--day-s=24", "--tick-s=1"]


def whole(source: ManyTables, table: int) -> pa.Table:
    return pa.concat_tables([source.rows(table, tick) for tick in range(source.clock.ticks)])


def rates(source: ManyTables) -> np.ndarray:
    return np.diff(source.total, axis=0) / source.tick_s


def opened(folder: Path) -> list[SourceTable]:
    """The tables, as a new process opens them."""
    return [SourceTable(folder / name, SCHEMA, SMALL.content) for name in SMALL.names]


def never(_: float) -> bool:
    return False


def test_same_seed_gives_the_same_rows_and_another_seed_others() -> None:
    same, other = ManyTables(3, 40.0, 1.0, 24.0, 1.0, 7), ManyTables(3, 40.0, 1.0, 24.0, 1.0, 8)
    for table in range(3):
        assert whole(SMALL, table).equals(whole(same, table))
        assert whole(SMALL, table).schema.equals(SCHEMA)
        assert not whole(SMALL, table)["amount_cents"].equals(whole(other, table)["amount_cents"])
    assert not np.array_equal(SMALL.total, other.total)


def test_rows_are_numbered_and_their_times_are_those_of_their_ticks() -> None:
    for table in range(3):
        rows = whole(SMALL, table)
        assert rows["row_id"].to_pylist() == list(range(SMALL.total[-1, table]))
        times = rows["event_time"].to_pylist()
        assert times == sorted(times) and times[-1] < BEGINS + timedelta(days=1)
        in_tick = SMALL.rows(table, 12)["event_time"].to_pylist()
        assert in_tick[0] == BEGINS + timedelta(hours=12) and in_tick[-1] < BEGINS + timedelta(hours=13)


def test_tables_differ_and_together_reach_the_wanted_rate_by_day() -> None:
    source = ManyTables()
    found = rates(source)
    assert len(source.names) == 30 and found.sum(axis=1).max() == pytest.approx(source.rows_per_s, rel=0.02)
    assert found.sum(axis=1).min() < 0.25 * source.rows_per_s
    per_table = source.total[-1]
    assert 8 < per_table[0] / per_table[-1] < 16 and (np.diff(per_table) <= 0).mean() > 0.8
    assert len({int(found[:240, table].argmax()) for table in range(6)}) > 1, "days are shifted"


def test_day_is_busiest_at_noon_and_quietest_twelve_hours_later() -> None:
    hours = np.arange(24.0)
    assert busy(hours).argmax() == 13 and busy(hours).argmin() == 1
    assert (busy(hours).max(), busy(hours).min()) == (pytest.approx(1.0), pytest.approx(NIGHT))


def test_a_row_in_fifty_has_no_key() -> None:
    keys = whole(ManyTables(tables=1, rows_per_s=400.0, day_s=100.0), 0)["key"]
    assert keys.null_count / len(keys) == pytest.approx(KEYLESS, rel=0.3) and len(set(keys.to_pylist())) > 900


@pytest.mark.parametrize("key", ["tables", "rows_per_s", "days", "day_s", "tick_s"])
def test_settings_out_of_range_are_refused(key: str) -> None:
    with pytest.raises(feed.MillraceError) as refused:
        ManyTables(**{key: 0})
    assert refused.value.key == f"--{key.replace('_', '-')}"


@pytest.mark.parametrize("stops", [[0], [5, 3], [23], [24]])
def test_stopped_feed_continues_with_each_row_once(tmp_path: Path, stops: list[int]) -> None:
    told: list[str] = []
    for ticks in stops:
        left = iter(range(ticks, -1, -1))
        run(SMALL, opened(tmp_path), lambda _, left=left: next(left) == 0, told.append)
    assert run(SMALL, opened(tmp_path), never, told.append)
    assert run(SMALL, opened(tmp_path), never, told.append), "a finished feed has nothing to add"
    assert told[-1] == f"done: {SMALL.total[-1].sum()} rows in 3 tables"
    for table, name in enumerate(SMALL.names):
        stored = query("select * from t order by row_id", t=tmp_path / name).cast(SCHEMA)
        assert stored.to_pylist() == whole(SMALL, table).to_pylist()


def test_feed_that_was_killed_between_two_tables_completes_the_tick(tmp_path: Path) -> None:
    first, *_ = opened(tmp_path)
    for tick in range(3):
        first.append(SMALL.rows(0, tick), 1, "feed/many_tables", tick)
    for table in opened(tmp_path)[1:]:
        index = SMALL.names.index(table.path.name)
        for tick in range(2):
            table.append(SMALL.rows(index, tick), 1, "feed/many_tables", tick)
    assert run(SMALL, opened(tmp_path), never, lambda _: None)
    for table, name in enumerate(SMALL.names):
        stored = query("select row_id from t order by row_id", t=tmp_path / name)
        assert stored["row_id"].to_pylist() == list(range(SMALL.total[-1, table]))


def invoke(monkeypatch: pytest.MonkeyPatch, folder: Path, *words: str) -> Result:
    monkeypatch.setattr(feed, "stoppable", lambda _: never)
    return CliRunner().invoke(main, [f"--folder={folder}", *words])


def test_command_fills_the_tables_and_tells_each_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = invoke(monkeypatch, tmp_path, *WORDS, "--seed=7")
    assert told.exit_code == 0, told.output
    lines = told.output.splitlines()
    assert len(lines) == 25 and lines[13].startswith("13:00, ") and lines[-1].startswith("done: ")
    assert {path.name for path in tmp_path.iterdir()} == set(SMALL.names)


def test_command_refuses_other_settings_on_the_same_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(tmp_path)
    for words, message in (
        ([*WORDS, "--seed=8"], "use the same settings, or a new folder"),
        (["--day-s=0"], "--day-s"),
    ):
        told = invoke(monkeypatch, tmp_path, *words)
        assert told.exit_code == 1 and message in told.output
