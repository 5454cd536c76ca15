"""Compare the stream's results with a batch computation of the same input, flight by flight."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from millrace.lake.source_tables import is_table, query
from millrace.local.feeds.nycflights import data_folder

WINDOW = pd.Timedelta(hours=1)
WATERMARK = pd.Timedelta(hours=1)
KEYS = ["hour", "origin", "dest", "tailnum"]


@dataclass(frozen=True)
class Comparison:
    """How the results differ from the batch computation; if equal, all counts but the first three are 0.

    Attributes:
        rows: Rows in the source.
        closed_rows: Rows in windows that the watermark has closed. The results must contain them.
        groups: Result rows that the batch computation expects.
        lost: Row ids missing from the results.
        doubled: Row ids that occur more than once in the results.
        foreign: Row ids in the results that are in no closed window.
        differing: Result rows that are missing, surplus, or different in any column.
        example: One difference as text; empty if there is none.
    """

    rows: int
    closed_rows: int
    groups: int
    lost: int
    doubled: int
    foreign: int
    differing: int
    example: str = ""

    @property
    def equal(self) -> bool:
        """Return whether the results are exactly those of the batch computation, and not empty."""
        return self.groups > 0 and not (self.lost or self.doubled or self.foreign or self.differing)


def compare(source: Path, results: Path) -> Comparison:
    """Compare the results table of ``delays`` with a batch computation over its source table.

    Raises:
        MillraceError: If a table cannot be read.
    """
    flights = query("select * from flights", flights=source).to_pandas()
    expected, closed = batch_delays(flights)
    actual = query("select * from delays", delays=results).to_pandas()
    actual = actual[list(expected.columns)].assign(row_ids=[tuple(ids) for ids in actual["row_ids"]])
    counts = Counter(row_id for ids in actual["row_ids"] for row_id in ids)
    wanted = set(closed["row_id"])
    differing, example = _differences(expected, actual)
    return Comparison(
        rows=len(flights),
        closed_rows=len(closed),
        groups=len(expected),
        lost=len(wanted - set(counts)),
        doubled=sum(1 for n in counts.values() if n > 1),
        foreign=len(set(counts) - wanted),
        differing=differing,
        example=example,
    )


def settled(source: Path, results: Path) -> bool:
    """Return whether the results contain as many flights as the closed windows: a cheap check, not a proof."""
    if not is_table(results):
        return False
    closed = """
        select count(*) as n from flights, (select max(event_time) as last from flights)
        where date_trunc('hour', event_time) + interval '1 hour' <= last - interval '1 hour'
    """
    expected = query(closed, flights=source)["n"][0].as_py()
    flights = query("select coalesce(sum(flights), 0) as n from delays", delays=results)["n"][0].as_py()
    return bool(flights >= expected)


def batch_delays(flights: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the expected results, and their flights: all flights in windows closed by the watermark."""
    hour = flights["event_time"].dt.floor(WINDOW)
    closed = flights[hour + WINDOW <= flights["event_time"].max() - WATERMARK]
    numbers = {c: pd.to_numeric(closed[c], errors="coerce") for c in ("dep_delay", "arr_delay")}
    typed = pd.DataFrame(
        {
            "hour": hour[closed.index],
            "origin": closed["origin"],
            "dest": closed["dest"],
            "tailnum": closed["tailnum"].where(closed["tailnum"] != "NA"),
            "row_id": closed["row_id"],
            "cancelled": numbers["dep_delay"].isna(),
            "dep_delay_min": numbers["dep_delay"],
            "arr_delay_min": numbers["arr_delay"],
        }
    ).merge(_planes(), how="left", on="tailnum")
    groups = typed.groupby(KEYS, dropna=False, sort=True)
    expected = pd.DataFrame(
        {
            "manufacturer": groups["manufacturer"].first(),
            "model": groups["model"].first(),
            "flights": groups.size(),
            "cancelled": groups["cancelled"].sum(),
            "dep_delay_min": groups["dep_delay_min"].sum(min_count=1),
            "arr_delay_min": groups["arr_delay_min"].sum(min_count=1),
            "mean_dep_delay_min": groups["dep_delay_min"].mean(),
            "mean_arr_delay_min": groups["arr_delay_min"].mean(),
            "seats": groups["seats"].sum(min_count=1),
            "row_ids": groups["row_id"].agg(lambda ids: tuple(sorted(ids))),
        }
    )
    return expected.reset_index(), closed


def _planes() -> pd.DataFrame:
    planes = pd.read_csv(data_folder() / "planes.csv", dtype=str, keep_default_na=False)
    planes["seats"] = pd.to_numeric(planes["seats"], errors="coerce")
    return planes[["tailnum", "manufacturer", "model", "seats"]]


def _differences(expected: pd.DataFrame, actual: pd.DataFrame) -> tuple[int, str]:
    """Return how many result rows differ, comparing whole rows, and one of them as text."""
    left, right = Counter(_rows(expected)), Counter(_rows(actual))
    missing, extra = left - right, right - left
    if not missing and not extra:
        return 0, ""
    kind, rows = ("missing", missing) if missing else ("not expected", extra)
    example = dict(zip(expected.columns, next(iter(rows)), strict=True))
    return max(missing.total(), extra.total()), f"{kind}: {example}"


def _rows(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    plain = frame.astype(object).where(frame.notna(), None)
    return [tuple(_plain(value) for value in row) for row in plain.itertuples(index=False, name=None)]


def _plain(value: Any) -> Any:
    """Return numbers and times in one type: the results may have nullable integers, the expected rows have floats."""
    if isinstance(value, int | float | np.number):
        return float(value)
    return pd.Timestamp(value).tz_convert("UTC").value if isinstance(value, pd.Timestamp) else value
