"""Windows of time in which an app has other bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.errors import pydantic_reason
from millrace.model.objective import Bounds
from millrace.model.schedule import Window, bounds_at, overlap
from millrace.model.spec import PipelineSpec

BERLIN = ZoneInfo("Europe/Berlin")
USUAL = Bounds(1, 8)
WORK = {"start": "0 8 * * 1-5", "end": "0 20 * * 1-5", "timezone": "Europe/Berlin", "min": 4}
MONDAY = datetime(2013, 7, 1, tzinfo=BERLIN)


def window(**changes: Any) -> Window:
    return Window.model_validate({**WORK, **changes})


def spec(*windows: dict[str, Any], **changes: Any) -> PipelineSpec:
    slots = {"min": 1, "max": 8, "start": 2, "schedule": windows, **changes.pop("slots", {})}
    return PipelineSpec.model_validate({"name": "orders", "script": "orders.py", "slots": slots, **changes})


@pytest.mark.parametrize(
    ("time", "is_open"),
    [
        ("2013-07-01 07:59:59", False),
        ("2013-07-01 08:00:00", True),
        ("2013-07-01 19:59:59", True),
        ("2013-07-01 20:00:00", False),
        ("2013-07-06 12:00:00", False),  # a Saturday
        ("2013-10-28 08:00:00", True),  # the first Monday of winter time
        ("2013-10-28 07:00:00", False),
    ],
)
def test_window_is_open_from_its_start_until_its_end_in_its_time_zone(time: str, is_open: bool) -> None:
    at = datetime.fromisoformat(time).replace(tzinfo=BERLIN)
    assert window().open_at(at) is is_open
    assert window().open_at(at.astimezone(UTC)) is is_open


def test_window_may_span_days() -> None:
    week = window(start="0 8 * * 1", end="0 20 * * 5")
    assert [week.open_at(MONDAY + timedelta(days=day, hours=12)) for day in range(7)] == [True] * 5 + [False] * 2


def test_start_that_is_repeated_within_a_window_changes_nothing() -> None:
    week = window(start="0 8 * * 1-5", end="0 20 * * 5")
    assert all(week.open_at(MONDAY + timedelta(days=1, hours=hour)) for hour in range(24))


def test_window_of_a_leap_day_is_open_once_in_four_years() -> None:
    leap = window(start="0 0 29 2 *", end="0 0 1 3 *")
    start, end = next(leap.spans(MONDAY))
    assert (start, end) == (datetime(2016, 2, 29, tzinfo=BERLIN), datetime(2016, 3, 1, tzinfo=BERLIN))
    assert leap.open_at(start) and not leap.open_at(MONDAY)


@given(st.integers(0, 23), st.integers(1, 23), st.integers(0, 366 * 24 * 60))
def test_daily_window_covers_its_hours(start: int, hours: int, minute: int) -> None:
    end = (start + hours) % 24
    daily = Window(start=f"0 {start} * * *", end=f"0 {end} * * *", min=2)
    now = datetime(2013, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
    assert daily.open_at(now) is ((now.hour - start) % 24 < hours)


def test_bounds_in_a_window_are_its_own_and_say_until_when() -> None:
    inside = bounds_at(USUAL, [window()], MONDAY + timedelta(hours=9))
    assert inside == Bounds(4, 8, 1, "slots.schedule until 2013-07-01 20:00 Europe/Berlin", "slots.max")
    assert bounds_at(USUAL, [window()], MONDAY) == USUAL
    night = window(start="0 20 * * *", end="0 8 * * *", min=None, max=2)
    assert bounds_at(USUAL, [window(), night], MONDAY + timedelta(hours=21)).max_slots == 2


def test_overlap_is_found_and_windows_that_touch_are_none() -> None:
    night = window(start="0 20 * * 1-5", end="0 8 * * 1-5", min=1)
    assert overlap([window(), night], MONDAY) is None
    late = window(start="0 19 * * 1-5", end="0 23 * * 1-5")
    found = overlap([window(), night, late], MONDAY)
    assert found is not None and found[:2] == (0, 2) and found[2].hour == 19
    rare = window(start="0 0 24 12 *", end="0 0 25 12 *", timezone="UTC")
    assert overlap([window(), rare], MONDAY) is not None, "a window of one day per year"


def test_spec_has_the_bounds_of_the_time_and_the_widest_without_one() -> None:
    of = spec({**WORK, "max": 16})
    assert str(of.bounds_contract(MONDAY + timedelta(hours=9))) == "4 to 16"
    assert str(of.bounds_contract(MONDAY)) == "1 to 8"
    assert str(of.bounds_contract()) == "1 to 16"


def test_app_of_several_may_have_a_schedule_of_its_own() -> None:
    apps = {"a": {"script": "a.py"}, "b": {"script": "b.py", "slots": {"schedule": [{**WORK, "min": 6}]}}}
    of = PipelineSpec.model_validate({"name": "p", "apps": apps, "slots": {"max": 8, "schedule": [WORK]}})
    bounds = of.bounds_by_app(MONDAY + timedelta(hours=9))
    assert (bounds["a"].min_slots, bounds["b"].min_slots) == (4, 6)


@pytest.mark.parametrize(
    ("windows", "changes", "said"),
    [
        ([{**WORK, "start": "8 o'clock"}], {}, "cron expression of five fields"),
        ([{**WORK, "start": "@daily"}], {}, "cron expression of five fields"),
        ([{**WORK, "start": "0 0 30 2 *"}], {}, "no such date ever comes"),
        ([{**WORK, "end": "0 0 31 4 *"}], {}, "no such date ever comes"),
        ([{**WORK, "timezone": "Berlin"}], {}, "IANA name"),
        ([{**WORK, "min": None}], {}, "set at least one of them"),
        ([{**WORK, "end": WORK["start"]}], {}, "choose another time"),
        ([{**WORK, "min": 9}], {}, "schedule.0: min, 9, is more than max, 8"),
        ([WORK, {**WORK, "start": "0 9 * * 1-5"}], {}, "windows 0 and 1 are both open at"),
        ([{**WORK, "min": 3}], {"executor": {"cores": 2}, "slots": {"min": 2}}, "multiples of executor.cores, 2"),
    ],
)
def test_bad_window_is_refused_with_a_remedy(windows: list[dict[str, Any]], changes: Any, said: str) -> None:
    with pytest.raises(ValueError, match="slots") as refused:
        spec(*windows, **changes)
    assert said in pydantic_reason(str(refused.value))


def test_budget_below_the_sum_of_the_windows_minimums_is_refused() -> None:
    apps = {"a": {"script": "a.py"}, "b": {"script": "b.py"}}
    with pytest.raises(ValueError, match=r"budget\.slots: at least 8"):
        PipelineSpec.model_validate({"name": "p", "apps": apps, "slots": {"schedule": [WORK]}, "budget": {"slots": 6}})


def test_spans_are_the_starts_with_their_ends() -> None:
    spans = list(islice(window().spans(MONDAY), 6))
    assert [(b - a) for a, b in spans] == [timedelta(hours=12)] * 6
    assert spans[5][0] == datetime(2013, 7, 8, 8, tzinfo=BERLIN), "after the weekend"
