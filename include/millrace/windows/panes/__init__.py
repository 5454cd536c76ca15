"""Sliding windows that aggregate each row once, for Spark batches and streams; usable without the rest of Millrace."""

from millrace.windows.aggregates.aggregate import (
    Aggregate,
    avg,
    count,
    max,
    min,
    stddev,
    stddev_pop,
    stddev_samp,
    sum,
    user_columns,
    user_defined,
    var_pop,
    var_samp,
    variance,
)
from millrace.windows.panes.sliding import Sliding, sliding
from millrace.windows.panes.sliding_rows import SlidingRows, sliding_rows

__all__ = [
    "Aggregate",
    "Sliding",
    "SlidingRows",
    "avg",
    "count",
    "max",
    "min",
    "sliding",
    "sliding_rows",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "user_columns",
    "user_defined",
    "var_pop",
    "var_samp",
    "variance",
]
