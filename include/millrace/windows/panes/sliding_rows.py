"""Windows that slide by a number of rows: the last ``size`` rows of a key, after every ``slide`` rows.

Row i of a key (from 1) closes a window if i >= size and (i - size) mod slide = 0. Batches only: the order of arrival in
a stream would differ in another run.

Reference: Balkesen, Tatbul, Ozsu, DEBS 2013, Sections 5.2 and 5.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from millrace.model.errors import MillraceError
from millrace.windows.aggregates.aggregate import Aggregate, count
from millrace.windows.aggregates.plan import AggregationPlan

_INDEX, _PANE, _START, _ROWS, _WINDOW = "__index", "__pane", "__start", "__rows", "window"


@dataclass(frozen=True)
class SlidingRows:
    """Rows in windows by row number, ready for aggregates.

    Attributes:
        rows: The rows.
        order: Columns that order the rows.
        size: Rows of a window.
        slide: Rows between the ends of two windows.
        keys: Columns to group by. Each combination of their values has its own windows.
    """

    rows: DataFrame
    order: tuple[Any, ...]
    size: int
    slide: int
    keys: tuple[Any, ...]

    def agg(self, *aggregates: Aggregate) -> DataFrame:
        """Return a row per full window and key: ``window``, the keys, the aggregates.

        ``window`` contains ``start``, the number of its first row, and ``end``, one after its last row, from 0.

        Raises:
            MillraceError: If the aggregates cannot be computed this way.
        """
        by = Window.partitionBy(*self.keys).orderBy(*self.order)
        numbered = self.rows.withColumn(_INDEX, (sf.row_number().over(by) - 1).cast("long"))
        plan = AggregationPlan(numbered, self.keys, (*aggregates, count().alias(_ROWS)))
        if _WINDOW in (*plan.key_names, *plan.names):
            raise MillraceError("aggregates", _WINDOW, "distinct names", "The window has this name: choose another.")
        if plan.needs_arrow:
            panes = plan.by_arrow(plan.prepared({_INDEX: sf.col(_INDEX), _PANE: self._pane()}), [_PANE], _INDEX)
        else:
            panes = plan.by_spark(self._pane().alias(_INDEX))
        placed = panes.select("*", sf.explode(self._starts()).alias(_START))
        window = sf.struct(sf.col(_START).alias("start"), (sf.col(_START) + self.size).alias("end")).alias(_WINDOW)
        return plan.merged(placed, [window], sf.col(_INDEX)).where(sf.col(_ROWS) == self.size).drop(_ROWS)

    def _pane(self) -> Column:
        """Return the number of the first row of a row's pane."""
        pane = gcd(self.size, self.slide)
        return sf.floor(sf.col(_INDEX) / pane) * pane

    def _starts(self) -> Column:
        """Return the first rows of the windows that contain a pane."""
        earliest = sf.greatest(sf.lit(0).cast("long"), sf.floor((self._pane() - self.size) / self.slide) + 1)
        starts = sf.sequence(earliest, sf.floor(self._pane() / self.slide))
        return sf.transform(starts, lambda window: window * self.slide)


def sliding_rows(
    rows: DataFrame, order: Sequence[str | Column] | str, size: int, slide: int, keys: Sequence[str | Column] | str = ()
) -> SlidingRows:
    """Put rows into sliding windows by row number.

    Args:
        rows: A batch.
        order: Columns that order the rows of a key. The order of ties is undefined.
        size: Rows of a window, >= 1.
        slide: Rows between the ends of two windows, 1..size.
        keys: Columns to group by. Each combination of their values has its own row numbers; without keys, all rows
            pass through one task.

    Raises:
        MillraceError: If a number is out of range, there is no order, or the rows are a stream.
    """
    if rows.isStreaming:
        remedy = "Use sliding(), or sliding_rows() on each batch in foreachBatch."
        raise MillraceError(
            "rows", "a stream", "a batch, because a stream's order of arrival cannot be repeated", remedy
        )
    for key, value, most in (("size", size, None), ("slide", slide, size)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1 or (most is not None and value > most):
            allowed = f"1..{most}" if most else "a whole number >= 1"
            raise MillraceError(key, value, allowed, "Give a number of rows.")
    ordered = (order,) if isinstance(order, str) else tuple(order)
    if not ordered:
        raise MillraceError(
            "order", order, "at least one column", "Name the columns that order the rows, such as their time."
        )
    return SlidingRows(rows, ordered, size, slide, (keys,) if isinstance(keys, str) else tuple(keys))
