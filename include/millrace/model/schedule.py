"""Windows of time in which an app has other bounds than usual, such as more slots in business hours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import combinations, islice
from typing import Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import Field, field_validator, model_validator

from millrace.model.objective import Bounds
from millrace.model.spec_base import Count, Strict

ANY_DAY = datetime(2000, 1, 1, tzinfo=UTC)
LOOKED_AT = 14
"""Times of a window that are checked for overlaps with another one: two weeks of a daily window."""


class Window(Strict):
    """A time with its own bounds. Keys that are left out keep the values of `slots`."""

    start: str = Field(description="Cron expression of its starts, such as 0 8 * * 1-5")
    end: str = Field(description="Cron expression of its ends")
    timezone: str = Field("UTC", description="IANA name of the time zone of both, such as Europe/Berlin")
    min: Count | None = Field(None, description="Minimum in this time")
    max: Count | None = Field(None, description="Maximum in this time")

    @field_validator("start", "end")
    @classmethod
    def _is_cron(cls, expression: str) -> str:
        from croniter import CroniterBadDateError, croniter

        if len(expression.split()) != 5 or not croniter.is_valid(expression):
            raise ValueError(f"{expression}: allowed is a cron expression of five fields such as 0 8 * * 1-5")
        try:
            croniter(expression, ANY_DAY).get_next(datetime)
        except CroniterBadDateError:
            raise ValueError(f"{expression}: no such date ever comes; choose another one") from None
        return expression

    @field_validator("timezone")
    @classmethod
    def _is_known(cls, timezone: str) -> str:
        if timezone not in available_timezones():
            raise ValueError(f"{timezone}: allowed is an IANA name such as Europe/Berlin or UTC")
        return timezone

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("min, max: set at least one of them")
        if self.start == self.end:
            raise ValueError(f"end: {self.end} is the start too; choose another time")
        return self

    def open_at(self, now: datetime) -> bool:
        """Return whether a time is within the window: its last start is later than its last end.

        Args:
            now: The time, with a time zone; a start is within the window, an end is not.
        """
        at = now + timedelta(microseconds=1)  # croniter looks for times before the given one
        return self._next(self.start, at, back=True) > self._next(self.end, at, back=True)

    def next_end(self, now: datetime) -> datetime:
        """Return the first end after a time, in the window's time zone."""
        return self._next(self.end, now)

    def spans(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Return the starts after a time, each with the end that follows."""
        while True:
            now = self._next(self.start, now)
            yield now, self.next_end(now)

    def _next(self, expression: str, now: datetime, *, back: bool = False) -> datetime:
        from croniter import croniter

        times = croniter(expression, now.astimezone(ZoneInfo(self.timezone)))
        found: datetime = (times.get_prev if back else times.get_next)(datetime)
        return found


def bounds_at(usual: Bounds, windows: Sequence[Window], now: datetime) -> Bounds:
    """Return the allowed slots at a time, with the keys that set them.

    Args:
        usual: The slots that are allowed outside all windows.
        windows: Windows that do not overlap.
        now: The time, with a time zone.
    """
    open_now = next((window for window in windows if window.open_at(now)), None)
    if open_now is None:
        return usual
    key = f"slots.schedule until {open_now.next_end(now):%Y-%m-%d %H:%M} {open_now.timezone}"
    least = usual if open_now.min is None else replace(usual, min_slots=open_now.min, min_key=key)
    return least if open_now.max is None else replace(least, max_slots=open_now.max, max_key=key)


def overlap(windows: Sequence[Window], now: datetime) -> tuple[int, int, datetime] | None:
    """Return the indexes of two windows that are open at once, and when; None if no two are in their next times.

    Args:
        windows: The windows.
        now: The present, with a time zone.
    """
    for (first, a), (second, b) in combinations(enumerate(windows), 2):
        for one, other in ((a, b), (b, a)):  # either may be the rare one
            for start, end in islice(one.spans(now), LOOKED_AT):
                if other.open_at(start):
                    return first, second, start
                following, _ = next(other.spans(start))
                if following < end:
                    return first, second, following
    return None


@cache  # the spec of each of several apps is validated again and again
def overlap_from(day: date, windows: tuple[Window, ...]) -> tuple[int, int, datetime] | None:
    """Return what :func:`overlap` returns, from the beginning of a day (UTC) on."""
    return overlap(windows, datetime.combine(day, time(), UTC))
