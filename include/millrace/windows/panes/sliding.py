"""Sliding windows that aggregate each row once: a drop-in for ``groupBy(window(ts, size, slide), *keys).agg(...)``.

Spark copies each row into every window that contains it: 60 times for an hour that slides by a minute. Here rows are
aggregated into panes of gcd(size, slide), which do not overlap, and windows are merged from panes.

Reference: Balkesen, Tatbul, Ozsu, "Adaptive Input Admission and Management for Parallel Stream Processing", DEBS 2013,
Sections 4.2 and 5.3.
Deviation: Spark's watermark takes the role of punctuation; nothing else closes windows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from math import gcd
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import TimestampNTZType, TimestampType

from millrace.model.errors import MillraceError
from millrace.model.partitioning import PartitionMap
from millrace.windows.aggregates.aggregate import Aggregate
from millrace.windows.aggregates.plan import AggregationPlan
from millrace.windows.partitioning.following import Followed
from millrace.windows.partitioning.spread import spread

WINDOWS, PANES = "windows", "panes"
_TIME, _PANE, _WINDOW, _ALL = "__time", "__pane", "window", "__all"


@dataclass(frozen=True)
class Sliding:
    """Rows in sliding windows, ready for aggregates.

    Attributes:
        rows: The rows.
        time: Column of event time.
        size_us: Length of a window, microseconds.
        slide_us: Time between the starts of two windows, microseconds.
        start_us: Start of the first window after 1970-01-01 00:00:00 UTC, microseconds.
        keys: Grouping columns in addition to the window.
        late: Which late rows count, ``windows`` or ``panes``.
    """

    rows: DataFrame
    time: Any
    size_us: int
    slide_us: int
    start_us: int
    keys: tuple[Any, ...]
    late: str

    @property
    def pane_us(self) -> int:
        """Length of a pane, microseconds."""
        return gcd(self.size_us, self.slide_us)

    def agg(self, *aggregates: Aggregate) -> DataFrame:
        """Return a row per window and key: ``window``, the keys, the aggregates.

        Raises:
            MillraceError: If the aggregates cannot be computed this way.
        """
        plan = AggregationPlan(self.rows, self.keys, aggregates)
        if _WINDOW in (*plan.key_names, *plan.names):
            raise MillraceError("aggregates", _WINDOW, "distinct names", "The window has this name: choose another.")
        if plan.needs_arrow or (self.rows.isStreaming and self.late == WINDOWS):
            return self._from_rows(plan)
        return self._from_panes(plan)

    def _from_panes(self, plan: AggregationPlan) -> DataFrame:
        """Aggregate panes in Spark, then windows over them."""
        panes = plan.by_spark(self._panes().alias(_PANE))
        return plan.merged(panes, [self._windows(_PANE)], sf.col(_PANE)["start"])

    def _from_rows(self, plan: AggregationPlan) -> DataFrame:
        """Fold the rows of each pane within a partition, then aggregate the folded rows in windows like plain rows.

        A folded row has the time of the last row of its pane, which is in the same windows as all rows of the pane. So
        Spark assigns windows, drops late rows and closes windows exactly as it does without panes.
        """
        time = sf.col(self.time) if isinstance(self.time, str) else self.time
        prepared = plan.prepared({_TIME: time, _PANE: self._panes()["start"]})
        watermark = prepared.schema[_TIME].metadata
        folded = plan.by_arrow(prepared, [_PANE], _TIME)
        # Python workers lose the mark that identifies the event-time column for Spark; its watermark is unaffected
        others = [sf.col(c) for c in folded.columns if c != _TIME]
        marked = folded.select(sf.col(_TIME).alias(_TIME, metadata=watermark), *others)
        return plan.merged(marked, [self._windows(_TIME)], sf.col(_TIME))

    def _panes(self) -> Column:
        pane = text(self.pane_us)
        # Spark requires a start below the slide
        return sf.window(self.time, pane, pane, text(self.start_us % self.pane_us))

    def _windows(self, column: str) -> Column:
        return sf.window(column, text(self.size_us), text(self.slide_us), text(self.start_us)).alias(_WINDOW)


def sliding(
    rows: DataFrame,
    time: str | Column,
    size: str | timedelta,
    slide: str | timedelta,
    keys: Sequence[str | Column] | str = (),
    *,
    start: str | timedelta = timedelta(0),
    late: str = WINDOWS,
    by: PartitionMap | Followed | None = None,
) -> Sliding:
    """Put rows into sliding windows of time.

    Args:
        rows: A batch or a stream. A stream must already have its watermark, as for Spark's own windows.
        time: Column of event time. Rows without a time are in no window.
        size: Length of a window, such as ``"60 minutes"``.
        slide: Time between the starts of two windows; at most ``size``.
        keys: Columns to group by in addition to the window. Null is a key.
        start: Start of windows relative to 1970-01-01 00:00:00 UTC; less than ``slide``.
        late: For streams only. ``windows``: a late row counts in all windows that are still open, as Spark has it.
            ``panes``: it counts only if its pane is still open; state and work are the least, and ``user_columns`` can
            be used; rows within the watermark's delay count everywhere in both.
        by: Spread the rows before they are aggregated, as ``spread`` does with this map of the keys. A pane of a hot
            key is divided among the workers that share the key. Without keys, every pane is divided among all.

    Raises:
        MillraceError: If a length is not positive, the slide is longer than the window, the start is not below the
            slide, the column does not contain times, or rows are to be spread by keys that are no columns.
    """
    sizes = {"size": microseconds("size", size), "slide": microseconds("slide", slide)}
    for key, length in sizes.items():
        if length <= 0:
            raise MillraceError(key, size if key == "size" else slide, "above 0", 'Write it as "60 minutes".')
    if sizes["slide"] > sizes["size"]:
        raise MillraceError(
            "slide", slide, f"at most the size, {size}", "Use a shorter slide: rows between windows would be lost."
        )
    start_us = microseconds("start", start)
    if abs(start_us) >= sizes["slide"]:
        raise MillraceError("start", start, f"below the slide, {slide}", "Shift windows by less than one slide.")
    if late not in (WINDOWS, PANES):
        raise MillraceError("late", late, f"{WINDOWS}, {PANES}", "Choose one of these.")
    field = rows.select(time).schema[0]
    if not isinstance(field.dataType, TimestampType | TimestampNTZType):
        value = f"{field.name}: {field.dataType.simpleString()}"
        raise MillraceError("time", value, "a timestamp", "Cast it to a timestamp.")
    grouped = (keys,) if isinstance(keys, str) else tuple(keys)
    placed = rows if by is None else _spread(rows, grouped, by)
    return Sliding(placed, time, sizes["size"], sizes["slide"], start_us, grouped, late)


def _spread(rows: DataFrame, keys: Sequence[Any], by: PartitionMap | Followed) -> DataFrame:
    """Return the rows spread by their keys, or evenly if there are none.

    The paper assigns panes one by one, as they arrive, and divides a pane once it is larger than the recent ones. All
    rows of a micro-batch are there at once: a key's panes are divided by the rate of the key, and keyless ones always,
    which costs a partial result per pane and worker, and no pane has to be counted before.
    """
    if keys:
        named = [key for key in keys if isinstance(key, str)]
        if len(named) < len(keys):
            raise MillraceError("keys", "an expression", "names of columns, with by", "Add it as a column first.")
        return spread(rows, named, by=by)
    if not isinstance(by, Followed):
        raise MillraceError("by", "a fixed map", "followed(name), without keys", "Spread the rows by keys, or use it.")
    return spread(rows.withColumn(_ALL, sf.lit(0)), _ALL, by=by).drop(_ALL)


MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
"""Length of each unit. Months are missing: Spark rejects them too."""
_TERM = re.compile(r"([+-]?\d*\.?\d+)\s*([a-z]+?)s?(?=[\s\d+-]|$)")


def microseconds(key: str, duration: str | timedelta) -> int:
    """Return a duration's length in microseconds.

    Args:
        key: The argument's name, for the error.
        duration: Such as ``"1 hour 30 minutes"``, or a timedelta. Only seconds may have decimals, as in Spark.

    Raises:
        MillraceError: If the text is not a duration, or has months or years.
    """
    if isinstance(duration, timedelta):
        return duration // timedelta(microseconds=1)
    text = duration.strip().lower().removeprefix("interval").strip() if isinstance(duration, str) else ""
    terms = _TERM.findall(text)
    rest = _TERM.sub("", text).strip()
    if not terms or rest or any(unit not in MICROSECONDS or ("." in n and unit != "second") for n, unit in terms):
        allowed = f"whole numbers of {', '.join(MICROSECONDS)}; decimals of seconds only"
        raise MillraceError(key, duration, allowed, 'Write it as "60 minutes".')
    return sum(int(Decimal(number) * MICROSECONDS[unit]) for number, unit in terms)


def text(length_us: int) -> str:
    """Return a length in microseconds as Spark reads it."""
    return f"{length_us} microseconds"
