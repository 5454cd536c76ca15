"""Aggregates that can be computed in parts: ``count``, ``sum``, ``min``, ``max``, ``avg``, variances, and user-defined.

They replace Spark's own aggregates of the same names, and return the same columns and types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructType

from millrace.model.errors import MillraceError
from millrace.windows.aggregates import part
from millrace.windows.aggregates.part import Pair, Part, State


@dataclass(frozen=True, eq=False)
class Aggregate:
    """An aggregate over each group of rows.

    Attributes:
        parts: Its partials.
        finish: Computes the result from the merged partials.
        spark: Spark's own aggregate, for its name and type; None for a user's.
        name: The result's column, by default as Spark calls it.
    """

    parts: tuple[Part, ...]
    finish: Callable[[Sequence[Column]], Column]
    spark: Column | None = None
    name: str | None = None

    def alias(self, name: str) -> Aggregate:
        """Return the same aggregate under another name."""
        return replace(self, name=name)


def count(column: Any = "*") -> Aggregate:
    """Count rows, or the non-null values of a column."""
    rows = isinstance(column, str) and column == "*"
    return Aggregate((part.count(*(() if rows else (column,))),), _first, sf.count(column))


def sum(column: Any) -> Aggregate:
    """Sum a column; null if all values are null."""
    return Aggregate((part.total(column),), _first, sf.sum(column))


def min(column: Any) -> Aggregate:
    """Return the smallest value; NaN is the largest number."""
    return Aggregate((part.least(column),), _first, sf.min(column))


def max(column: Any) -> Aggregate:
    """Return the largest value; NaN is the largest number."""
    return Aggregate((part.greatest(column),), _first, sf.max(column))


def avg(column: Any) -> Aggregate:
    """Return the mean."""

    def mean(merged: Sequence[Column]) -> Column:
        return merged[0] / merged[1]

    return Aggregate((part.total(column, of_mean=True), part.count(column)), mean, sf.avg(column))


def var_pop(column: Any) -> Aggregate:
    """Return the population variance."""
    return Aggregate((part.moments(column),), lambda m: _variance(m[0], 0), sf.var_pop(column))


def var_samp(column: Any) -> Aggregate:
    """Return the sample variance."""
    return Aggregate((part.moments(column),), lambda m: _variance(m[0], 1), sf.var_samp(column))


def stddev_pop(column: Any) -> Aggregate:
    """Return the population standard deviation."""
    return Aggregate((part.moments(column),), lambda m: sf.sqrt(_variance(m[0], 0)), sf.stddev_pop(column))


def stddev_samp(column: Any) -> Aggregate:
    """Return the sample standard deviation."""
    return Aggregate((part.moments(column),), lambda m: sf.sqrt(_variance(m[0], 1)), sf.stddev_samp(column))


def stddev(column: Any) -> Aggregate:
    """Return ``stddev_samp`` under Spark's short name."""
    return replace(stddev_samp(column), spark=sf.stddev(column))


def variance(column: Any) -> Aggregate:
    """Return ``var_samp`` under Spark's short name."""
    return replace(var_samp(column), spark=sf.variance(column))


def user_defined(
    name: str,
    columns: Sequence[str],
    *,
    state: str,
    returns: str,
    init: Callable[[], tuple[Any, ...]],
    update: Callable[[tuple[Any, ...], Any], tuple[Any, ...]],
    merge: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]],
    finish: Callable[[tuple[Any, ...]], Any],
) -> Aggregate:
    """Return an aggregate of Python functions over a state.

    Args:
        name: The result's column.
        columns: Columns of the rows for ``update``, by these names; at least one.
        state: The state's fields as Spark DDL, such as ``n long, last timestamp``.
        returns: The result's type as Spark DDL.
        init: Returns the state of no rows: a tuple with a value for each field.
        update: Takes a state and a pandas frame of rows, returns the new state.
        merge: Takes two states of different rows, the earlier first, and returns the state of both. Associative. States
            of rows from several partitions or batches overlap in time: if order within a pane matters, keep times in
            the state.
        finish: Computes the result from a state.

    Raises:
        MillraceError: If there is no column, or the state has no field.
    """
    if not columns:
        raise MillraceError("columns", columns, "at least one column", "Name the columns that update reads.")
    names = StructType.fromDDL(state).names
    if not names:
        raise MillraceError("state", state, "fields with types", "Declare the fields of the state.")

    kind = to_arrow_type(DataType.fromDDL(returns), timezone="UTC")

    def result(collected: pa.Array) -> pa.Array:
        results = []
        for states in collected.to_pylist():
            ordered = sorted(states, key=lambda s: s["at"])
            merged = reduce(merge, (tuple(s["state"][n] for n in names) for s in ordered))
            results.append(finish(merged))
        return pa.array(results, kind)

    finished = sf.arrow_udf(result, returns)
    return Aggregate((State(tuple(columns), init, update, state),), lambda m: finished(m[0]), None, name)


def user_columns(
    name: str, rows: Column, merge: Callable[[Column], Column], finish: Callable[[Column], Column] | None = None
) -> Aggregate:
    """Return an aggregate made of two Spark aggregates.

    Args:
        name: The result's column.
        rows: A Spark aggregate over rows, such as ``collect_set("plane")``.
        merge: Returns a Spark aggregate over the results of ``rows``, such as
            ``lambda sets: flatten(collect_list(sets))``.
        finish: Computes the result from that of ``merge``, such as ``lambda all: size(array_distinct(all))``.
    """
    return Aggregate((Pair(rows, merge),), lambda m: finish(m[0]) if finish else m[0], None, name)


def _first(merged: Sequence[Column]) -> Column:
    return merged[0]


def _variance(moments: Column, lost: int) -> Column:
    """Return the variance from moments; null without values and, if ``lost`` is 1, also for a single value."""
    return sf.when(moments["n"] > lost, moments["m2"] / (moments["n"] - lost))
