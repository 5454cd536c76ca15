"""Flights and weather on one clock: the order of hours, and a feed that is killed and restarted."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.lake.source_tables import SourceTable, query
from millrace.local.feeds import flight_weather
from millrace.local.feeds.feed import TRANSACTION, run
from millrace.local.feeds.flight_weather import first_tick, main
from millrace.local.feeds.nycflights import weather
from millrace.local.feeds.replay_clock import FLIGHTS, WEATHER, Clock, Replay
from tests.flights import flights

ROOT = Path(__file__).resolve().parents[4]
NAMES = ("flights", "weather")
CLOCK = Clock(fold_days=3, days=1, day_s=3, start_hour=5, tick_s=0.05, rate_scale=0.5)
SMALL = Clock(fold_days=2, days=0.2, day_s=3, start_hour=6, tick_s=0.05)
ARGS = ["--fold-days=3", "--day-s=3", "--start-hour=5", "--tick-s=0.05", "--rate-scale=0.5", "--parts=2"]


@pytest.fixture(scope="module")
def hours() -> pd.DataFrame:
    return weather()


@pytest.fixture(scope="module")
def replays(hours: pd.DataFrame) -> tuple[Replay, Replay]:
    return Replay(CLOCK, flights(), FLIGHTS), Replay(CLOCK, hours, WEATHER)


@pytest.fixture(scope="module")
def small(hours: pd.DataFrame) -> tuple[Replay, Replay]:
    return Replay(SMALL, flights(), FLIGHTS), Replay(SMALL, hours, WEATHER)


def whole(replay: Replay) -> pd.DataFrame:
    return pa.concat_tables(replay).to_pandas()


def start(folder: Path) -> subprocess.Popen[str]:
    tables = [f"--flights={folder / 'flights'}", f"--weather={folder / 'weather'}"]
    command = [sys.executable, "-m", "millrace.local.feeds.flight_weather", *tables, *ARGS]
    return subprocess.Popen(
        command, cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def await_commits(table: Path, number: int, process: subprocess.Popen[str]) -> None:
    while not (table / "_delta_log").is_dir() or len(list((table / "_delta_log").glob("*.json"))) <= number:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def no_wait(_: float) -> bool:
    return False


def feeds(folder: Path, replays: tuple[Replay, Replay]) -> list[tuple[Replay, SourceTable]]:
    """The replays with their tables, as a new process opens them."""
    content = replays[0].clock.content
    told = zip(replays, NAMES, (FLIGHTS, WEATHER), (content, f"weather for {content}"), strict=True)
    return [(replay, SourceTable(folder / name, kind.schema, made)) for replay, name, kind, made in told]


def assert_whole(folder: Path, replays: tuple[Replay, Replay]) -> None:
    for name, replay in zip(NAMES, replays, strict=True):
        assert row_ids(folder / name) == list(range(1, replay.rows + 1))


def row_ids(table: Path) -> list[int]:
    return [r["row_id"] for r in query("select row_id from t order by row_id", t=table).to_pylist()]


def test_weather_when_read_then_all_of_2013_with_missing_values_as_text(hours: pd.DataFrame) -> None:
    assert len(hours) == 26_115
    assert not hours.isna().any().any() and (hours["wind_gust"] == "NA").any()
    assert (hours["flight_date"] == hours["measured"].dt.strftime("%Y-%m-%d")).all()


def test_weather_of_folded_days_has_every_day_in_each_hour(hours: pd.DataFrame, replays: tuple[Replay, Replay]) -> None:
    laid = whole(replays[1]).iloc[:-1]
    days = [f"2013-01-0{n}" for n in (1, 2, 3)]
    later = hours["measured"].dt.hour >= 5
    assert (
        len(laid)
        == (hours["flight_date"].isin(days) & later).sum()
        + (hours["flight_date"].isin([f"2013-01-0{n}" for n in (4, 5, 6)]) & ~later).sum()
    ), "rate_scale is not for the weather"
    assert set(laid["flight_date"]) <= {*days, *(f"2013-01-0{n}" for n in (4, 5, 6))}
    truth = hours.set_index(["origin", "flight_date", "temp", "wind_dir", "humid", "pressure"])["measured"]
    for row in laid.sample(25, random_state=1).itertuples():
        key = (row.origin, row.flight_date, row.temp, row.wind_dir, row.humid, row.pressure)
        assert row.event_time.hour in set(truth.loc[[key]].dt.hour)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 60), st.integers(0, 23), st.floats(5, 500), st.floats(0.3, 5))
def test_weather_arrives_in_order_with_the_flights_of_its_time(
    fold_days: int, start_hour: int, day_s: float, tick_s: float
) -> None:
    clock = Clock(fold_days=fold_days, days=0.5, day_s=day_s, start_hour=start_hour, tick_s=tick_s)
    replay = Replay(clock, weather(), WEATHER)
    laid = whole(replay)
    assert laid["row_id"].tolist() == list(range(1, replay.rows + 1))
    assert laid["event_time"].is_monotonic_increasing
    begun = pd.Timestamp("2013-01-01", tz="UTC") + pd.Timedelta(hours=start_hour)
    counts = [replay.tick(n).num_rows for n in range(clock.ticks)]
    ticks = np.repeat(np.arange(clock.ticks), counts)
    passed_s = (laid["event_time"].iloc[:-1] - begun).dt.total_seconds().to_numpy() / 86_400 * day_s
    assert np.all(passed_s >= ticks * tick_s - 1e-6) and np.all(passed_s < (ticks + 1) * tick_s + 1e-6)


@given(st.integers(-1, CLOCK.ticks + 1))
def test_next_is_the_first_later_tick_with_rows(replays: tuple[Replay, Replay], number: int) -> None:
    for replay in replays:
        later = range(number + 1, CLOCK.ticks + 1)
        assert replay.next(number) == next((n for n in later if replay.tick(n).num_rows), CLOCK.ticks + 1)


@pytest.mark.slow
def test_feed_when_killed_then_continues_without_lost_or_duplicate_rows(
    tmp_path: Path, replays: tuple[Replay, Replay]
) -> None:
    process = start(tmp_path)
    await_commits(tmp_path / "flights", 12, process)
    process.kill()
    process.communicate()
    assert feeds(tmp_path, replays)[0][1].last(TRANSACTION) < CLOCK.ticks, "killed in the middle"
    finished = start(tmp_path)
    out, err = finished.communicate()
    assert finished.returncode == 0, err
    assert out.splitlines()[-1] == f"done: {replays[0].rows} and {replays[1].rows} rows"
    assert_whole(tmp_path, replays)
    pair = feeds(tmp_path, replays)
    assert run(pair, first_tick(pair), 1, no_wait, [].append), "what is over stays so"
    assert_whole(tmp_path, replays)


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, SMALL.ticks), max_size=3))
def test_stopped_feed_continues_with_each_row_once(
    tmp_path_factory: pytest.TempPathFactory, small: tuple[Replay, Replay], stops: list[int]
) -> None:
    folder, told = tmp_path_factory.mktemp("feed"), []
    for ticks in stops:
        left = iter(range(ticks, -1, -1))
        pair = feeds(folder, small)
        run(pair, first_tick(pair), 1, lambda _, left=left: next(left) == 0, told.append)
        last = max(table.last(TRANSACTION) for _, table in feeds(folder, small))
        if last < SMALL.ticks:
            assert told[-1].startswith("stopped before tick") and "continue from there" in told[-1]
        counts = [sum(replay.tick(n).num_rows for n in range(last + 1)) for replay in small]
        assert [len(row_ids(folder / name)) for name in NAMES] == counts
    pair = feeds(folder, small)
    assert run(pair, first_tick(pair), 1, no_wait, told.append)
    assert_whole(folder, small)


def test_feed_with_flights_ahead_of_weather_skips_no_hour(tmp_path: Path, replays: tuple[Replay, Replay]) -> None:
    calls = iter(range(1000))
    run(feeds(tmp_path, replays)[:1], 0, 1, lambda _: next(calls) >= 20, lambda _: None)
    told: list[str] = []
    pair = feeds(tmp_path, replays)
    assert run(pair, first_tick(pair), 1, no_wait, told.append)
    assert told[-1].startswith("done: ")
    assert_whole(tmp_path, replays)


def test_feed_refuses_other_settings_on_the_same_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight_weather, "stoppable", lambda _: no_wait)
    SourceTable(tmp_path / "weather", WEATHER.schema, "something else")
    asked = [f"--flights={tmp_path / 'flights'}", f"--weather={tmp_path / 'weather'}", *ARGS]
    told = CliRunner().invoke(main, asked)
    assert told.exit_code == 1 and "use the same settings, or a new folder" in told.output
