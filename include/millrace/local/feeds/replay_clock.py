"""Lay many days of rows over one clock and cut it into ticks. The same settings always give the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from millrace.local.feeds.nycflights import DAYS, FIRST_DAY
from millrace.model.errors import MillraceError

DAY_S = 86_400
CLOSING_GAP = pd.Timedelta(days=1)
SCHEMA = pa.schema(
    [
        ("row_id", pa.int64()),
        ("event_time", pa.timestamp("us", "UTC")),
        ("flight_date", pa.string()),
        ("sched_dep_time", pa.string()),
        ("dep_delay", pa.string()),
        ("arr_delay", pa.string()),
        ("carrier", pa.string()),
        ("flight", pa.string()),
        ("tailnum", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("distance", pa.string()),
    ]
)
WEATHER_SCHEMA = pa.schema(
    [
        ("row_id", pa.int64()),
        ("event_time", pa.timestamp("us", "UTC")),
        *(
            (name, pa.string())
            for name in (
                *("flight_date", "origin", "temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust"),
                *("precip", "pressure", "visib"),
            )
        ),
    ]
)


@dataclass(frozen=True)
class RowKind:
    """Kind of rows in a replay.

    Attributes:
        schema: Their columns, ``row_id`` and ``event_time`` first.
        time_column: Column with their time, in local time.
        order: Columns that order rows with the same time.
        scaled: Whether the clock's ``rate_scale`` applies to them.
    """

    schema: pa.Schema
    time_column: str
    order: tuple[str, ...]
    scaled: bool


FLIGHTS = RowKind(SCHEMA, "departed", ("flight_date", "carrier", "flight", "origin", "dest"), scaled=True)
WEATHER = RowKind(WEATHER_SCHEMA, "measured", ("flight_date", "origin"), scaled=False)
"""Not scaled: that would leave flights without weather, or give them several."""


@dataclass(frozen=True)
class Clock:
    """Settings of a replay. Together they determine every row of every tick.

    Attributes:
        fold_days: Days of flights laid over one replayed day, each keeping its time of day, 1..365.
        days: Replayed days, including fractions, > 0.
        day_s: Seconds per replayed day, > 0.
        start_hour: Hour of the day at which the replay starts, 0..23.
        rate_scale: Rows per flight, > 0: 0.5 keeps every second flight, 2 sends each twice (with its own row id).
        tick_s: Seconds between two commits, > 0.
    """

    fold_days: int = 28
    days: float = 1.0
    day_s: float = 240.0
    start_hour: int = 0
    rate_scale: float = 1.0
    tick_s: float = 1.0

    def __post_init__(self) -> None:
        for key, value in asdict(self).items():
            if key != "start_hour" and value <= 0:
                raise MillraceError(key, value, "> 0", "Give a positive number.")
        if not 0 <= self.start_hour <= 23:
            raise MillraceError("start_hour", self.start_hour, "0..23", "Give an hour of the day.")
        most = DAYS // self.fold_days - self.start_hour / 24
        if self.days > most:
            remedy = "Replay fewer days, or merge fewer days into one (fold_days)."
            raise MillraceError("days", self.days, f"at most {most:.2f} with fold_days = {self.fold_days}", remedy)

    @property
    def ticks(self) -> int:
        """Number of ticks. One more tick, with this number, closes the replay."""
        return int(np.ceil(self.days * self.day_s / self.tick_s))

    @property
    def content(self) -> str:
        """Content of a table filled by this replay, as text."""
        settings = {key: float(value) for key, value in asdict(self).items()}
        return f"flights of 2013, replayed: {json.dumps(settings)}"

    def hour(self, tick: int) -> float:
        """Return the hour of the replayed day at which a tick starts, [0, 24)."""
        return (self.start_hour + tick * self.tick_s / self.day_s * 24) % 24


class Replay:
    """The rows of every tick.

    Args:
        clock: The settings.
        rows: As :mod:`millrace.local.feeds.nycflights` returns them.
        kind: Kind of the rows.
    """

    def __init__(self, clock: Clock, rows: pd.DataFrame, kind: RowKind = FLIGHTS) -> None:
        self.clock = clock
        frame, self._closing = _overlay(clock, rows, kind)
        of_tick = (frame.pop("clock_s").to_numpy() / (DAY_S / clock.day_s * clock.tick_s)).astype(np.int64)
        self._bounds = np.searchsorted(of_tick, np.arange(clock.ticks + 1))
        self._rows = pa.Table.from_pandas(frame, schema=kind.schema, preserve_index=False)

    @property
    def rows(self) -> int:
        """Number of rows in the whole replay, including the closing one."""
        return int(self._rows.num_rows) + 1

    def tick(self, number: int) -> pa.Table:
        """Return the rows of one tick, 0..``clock.ticks``, in order of event time.

        The last tick is a single closing row, a day later than all others. It moves the watermark past every earlier
        event-time window, which completes the results.
        """
        if number == self.clock.ticks:
            return self._closing
        start, end = int(self._bounds[number]), int(self._bounds[number + 1])
        return self._rows.slice(start, end - start)

    def next(self, number: int) -> int:
        """Return the first tick with rows after the given one, -1 for the very first; past the end if there is none."""
        if number >= self.clock.ticks:
            return self.clock.ticks + 1
        return int(np.searchsorted(self._bounds, self._bounds[number + 1], side="right")) - 1

    def __iter__(self) -> Iterator[pa.Table]:
        return (self.tick(n) for n in range(self.clock.ticks + 1))


def _overlay(clock: Clock, rows: pd.DataFrame, kind: RowKind) -> tuple[pd.DataFrame, pa.Table]:
    since = rows[kind.time_column] - FIRST_DAY
    replayed_day = since.dt.days // clock.fold_days
    replayed = pd.to_timedelta(replayed_day, unit="D") + (since - pd.to_timedelta(since.dt.days, unit="D"))
    clock_s = replayed.dt.total_seconds() - clock.start_hour * 3600
    frame = rows.assign(event_time=(FIRST_DAY + replayed).dt.tz_localize("UTC"), clock_s=clock_s)
    frame = frame[(frame["clock_s"] >= 0) & (frame["clock_s"] < clock.days * DAY_S)]
    frame = frame.sort_values(["clock_s", *kind.order], kind="stable")
    rate_scale = clock.rate_scale if kind.scaled else 1.0
    copies = np.diff(np.floor(np.arange(len(frame) + 1) * rate_scale)).astype(np.int64)
    frame = frame.loc[frame.index.repeat(copies)].drop(columns=kind.time_column)
    frame.insert(0, "row_id", np.arange(1, len(frame) + 1))
    end = (FIRST_DAY + pd.Timedelta(days=clock.days, hours=clock.start_hour)).round("s")  # fractions need no ns
    last = rows.iloc[[0]].assign(event_time=(end + CLOSING_GAP).tz_localize("UTC"), row_id=len(frame) + 1)
    return frame, pa.Table.from_pandas(last[kind.schema.names], schema=kind.schema, preserve_index=False)
