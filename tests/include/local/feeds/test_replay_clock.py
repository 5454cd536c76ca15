"""The schedule of a replay on its clock."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.local.feeds.replay_clock import SCHEMA, Clock, Replay
from millrace.model.errors import MillraceError
from tests.flights import flights


@pytest.fixture(scope="module")
def all_flights() -> pd.DataFrame:
    return flights()


def _whole(replay: Replay) -> pa.Table:
    return pa.concat_tables(replay)


def test_flights_when_read_then_all_of_2013_with_missing_values_as_text(all_flights: pd.DataFrame) -> None:
    assert len(all_flights) == 336_776
    assert (all_flights["dep_delay"] == "NA").sum() == 8_255  # cancelled
    assert not all_flights.isna().any().any()


def test_replay_when_one_folded_day_then_rate_follows_the_hours(all_flights: pd.DataFrame) -> None:
    replay = Replay(Clock(day_s=240), all_flights)
    by_hour = np.zeros(24)
    for number in range(replay.clock.ticks):
        by_hour[int(replay.clock.hour(number))] += replay.tick(number).num_rows
    assert by_hour[1:4].sum() < 0.01 * by_hour.sum(), "night: nearly nothing"
    assert by_hour[6:9].mean() > 1.2 * by_hour[10:13].mean(), "first hump, in the morning"
    assert by_hour[15:19].mean() > 1.2 * by_hour[10:13].mean(), "second hump, in the afternoon"
    assert by_hour[23] < 0.15 * by_hour.max()


def test_replay_when_repeated_then_every_tick_has_the_same_rows(all_flights: pd.DataFrame) -> None:
    clock = Clock(day_s=60, start_hour=4, days=0.5)
    shuffled = all_flights.sample(frac=1, random_state=1)
    one, other = Replay(clock, all_flights), Replay(clock, shuffled)
    drop_closing = range(clock.ticks)
    assert all(one.tick(n).equals(other.tick(n)) for n in drop_closing)


@settings(max_examples=12, deadline=None)
@given(
    fold_days=st.integers(1, 60),
    start_hour=st.integers(0, 23),
    rate_scale=st.sampled_from([0.3, 1.0, 2.5]),
    day_s=st.floats(5, 500),
    tick_s=st.floats(0.3, 5),
)
def test_replay_of_any_settings_has_each_row_once_in_order(
    all_flights: pd.DataFrame, fold_days: int, start_hour: int, rate_scale: float, day_s: float, tick_s: float
) -> None:
    clock = Clock(fold_days, 1, day_s, start_hour, rate_scale, tick_s)
    replay = Replay(clock, all_flights)
    rows = _whole(replay)
    assert rows.schema == SCHEMA
    assert rows["row_id"].to_pylist() == list(range(1, replay.rows + 1)), "unique and without a gap"
    times = rows["event_time"].cast(pa.int64()).to_numpy()
    assert (np.diff(times) >= 0).all(), "a watermark never finds a late row"
    assert times[-1] - times[:-1].max(initial=0) >= 86_400e6, "the closing flight is a day after all others"
    begin = pd.Timestamp("2013-01-01", tz="UTC") + pd.Timedelta(hours=start_hour)
    for number in (0, clock.ticks // 2, clock.ticks - 1):
        tick = replay.tick(number)
        if tick.num_rows:
            first, last = (t.as_py() for t in pc.min_max(tick["event_time"]).values())
            width = pd.Timedelta(days=tick_s / day_s)
            slack = pd.Timedelta(milliseconds=1)
            assert begin + number * width - slack <= first <= last <= begin + (number + 1) * width + slack


def test_replay_at_double_rate_sends_each_flight_under_two_ids(all_flights: pd.DataFrame) -> None:
    one, two = (_whole(Replay(Clock(rate_scale=s), all_flights)).slice(0) for s in (1, 2))
    assert two.num_rows - 1 == 2 * (one.num_rows - 1)
    assert two["flight"].to_pylist()[:-1:2] == one["flight"].to_pylist()[:-1]


def test_replay_when_folded_then_keeps_flight_date_and_time_of_day(all_flights: pd.DataFrame) -> None:
    rows = _whole(Replay(Clock(fold_days=28), all_flights)).to_pandas()[:-1]
    assert rows["flight_date"].nunique() == 28
    assert set(rows["event_time"].dt.date.astype(str)) == {"2013-01-01"}
    on_time = rows[rows["dep_delay"] == "0"]
    hhmm = on_time["event_time"].dt.hour * 100 + on_time["event_time"].dt.minute
    assert (hhmm == on_time["sched_dep_time"].astype(int)).all()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fold_days", 0),
        ("days", 13.5),
        ("days", -1),
        ("day_s", 0),
        ("start_hour", 24),
        ("rate_scale", 0),
        ("tick_s", -1),
    ],
)
def test_clock_when_a_setting_is_out_of_range_then_error_names_it(key: str, value: float) -> None:
    with pytest.raises(MillraceError) as raised:
        Clock(**{key: value})
    assert raised.value.key == key


def test_replay_of_part_of_a_day_still_closes(all_flights: pd.DataFrame) -> None:
    replay = Replay(Clock(fold_days=7, days=0.7, day_s=30, start_hour=4), all_flights)
    assert _whole(replay).num_rows == replay.rows
    assert (
        replay.tick(replay.clock.ticks)["event_time"][0].as_py()
        > replay.tick(replay.clock.ticks - 1)["event_time"][-1].as_py()
    )
