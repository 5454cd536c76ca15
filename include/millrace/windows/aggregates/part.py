"""Partials: values computed over some rows, and how two of them are merged.

count, sum, min and max are distributive: a partial has the same form as the result. The mean and the variance are
algebraic: they combine a few distributive partials. A user-defined aggregate provides its state, or a pair of Spark
columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DecimalType, DoubleType, StructType

from millrace.windows.aggregates.fold import StateStep, Step

Input: TypeAlias = str | Column
"""A column name, or an expression over columns."""


class Part(ABC):
    """A partial."""

    @abstractmethod
    def inputs(self, rows: DataFrame) -> list[Input]:
        """Return the inputs it is computed from."""

    @abstractmethod
    def of_rows(self, inputs: Sequence[Column]) -> Column | None:
        """Return Spark's aggregate over rows; None if only Arrow can compute it."""

    @abstractmethod
    def step(self, inputs: tuple[str, ...], output: str) -> Step | StateStep | None:
        """Return Arrow's aggregate; None if only Spark can compute it."""

    @abstractmethod
    def kind(self, rows: DataFrame, inputs: Sequence[Column]) -> Any:
        """Return the partial's Spark type."""

    @abstractmethod
    def merge(self, partial: Column, at: Column) -> Column:
        """Return Spark's aggregate over partials; ``at`` is the time of their rows."""


@dataclass(frozen=True, eq=False)
class Named(Part):
    """A partial that both Spark and Arrow can compute.

    Attributes:
        name: A key of :data:`millrace.windows.aggregates.fold.KINDS`.
        arguments: At most one column.
        rows: Spark's aggregate over rows.
        partials: Spark's aggregate over partials.
        of_mean: Whether it is part of a mean, for which Spark adds up doubles unless the column has decimals.
    """

    name: str
    arguments: tuple[Any, ...]
    rows: Callable[[Column], Column]
    partials: Callable[[Column], Column]
    of_mean: bool = False

    def inputs(self, rows: DataFrame) -> list[Input]:
        if not self.of_mean:
            return list(self.arguments)
        (column,) = self.arguments
        if isinstance(rows.select(column).schema[0].dataType, DecimalType | DoubleType):
            return [column]
        return [(sf.col(column) if isinstance(column, str) else column).cast("double")]

    def of_rows(self, inputs: Sequence[Column]) -> Column:
        return self.rows(inputs[0] if inputs else sf.lit(1))

    def step(self, inputs: tuple[str, ...], output: str) -> Step:
        return Step(self.name, inputs, output)

    def kind(self, rows: DataFrame, inputs: Sequence[Column]) -> Any:
        return rows.groupBy().agg(self.of_rows(inputs).alias("x")).schema[0].dataType

    def merge(self, partial: Column, at: Column) -> Column:
        return self.partials(partial)


def count(*columns: Any) -> Named:
    """Return the number of rows, or of non-null values of a column."""
    return Named("count", columns, sf.count, sf.sum)


def total(column: Any, *, of_mean: bool = False) -> Named:
    """Return the sum of a column."""
    return Named("sum", (column,), sf.sum, sf.sum, of_mean)


def least(column: Any) -> Named:
    """Return the minimum of a column."""
    return Named("min", (column,), sf.min, sf.min)


def greatest(column: Any) -> Named:
    """Return the maximum of a column."""
    return Named("max", (column,), sf.max, sf.max)


def moments(column: Any) -> Named:
    """Return count, mean and sum of squared deviations from the mean, as a struct; zeros if there are no values.

    Reference: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
    Deviation: sums of squares would be distributive and cheaper, but lose all digits if the mean is large.
    """
    return Named("moments", (column,), _moments, _merge_moments)


def _moments(column: Column) -> Column:
    x, zero = column.cast("double"), sf.lit(0.0)
    return sf.struct(
        sf.count(x).alias("n"),
        sf.coalesce(sf.avg(x), zero).alias("mean"),
        sf.coalesce(sf.var_pop(x) * sf.count(x), zero).alias("m2"),
    )


def _merge_moments(partial: Column) -> Column:
    def pair(a: Column, b: Column) -> Column:
        n = a["n"] + b["n"]
        delta = b["mean"] - a["mean"]
        share = b["n"] / n
        both = sf.struct(
            n.alias("n"),
            (a["mean"] + delta * share).alias("mean"),
            (a["m2"] + b["m2"] + delta * delta * a["n"] * share).alias("m2"),
        )
        return sf.when(b["n"] == 0, a).when(a["n"] == 0, b).otherwise(both)

    start = sf.struct(sf.lit(0).cast("long").alias("n"), sf.lit(0.0).alias("mean"), sf.lit(0.0).alias("m2"))
    return sf.aggregate(sf.collect_list(partial), start, pair)


@dataclass(frozen=True, eq=False)
class State(Part):
    """A user's state, folded in Python."""

    arguments: tuple[str, ...]
    init: Callable[[], tuple[Any, ...]]
    update: Callable[[tuple[Any, ...], Any], tuple[Any, ...]]
    ddl: str

    def inputs(self, rows: DataFrame) -> list[Input]:
        return list(self.arguments)

    def of_rows(self, inputs: Sequence[Column]) -> Column | None:
        return None

    def step(self, inputs: tuple[str, ...], output: str) -> StateStep:
        return StateStep(inputs, output, self.arguments, self.init, self.update)

    def kind(self, rows: DataFrame, inputs: Sequence[Column]) -> Any:
        return StructType.fromDDL(self.ddl)

    def merge(self, partial: Column, at: Column) -> Column:
        """Collect the states with their times. They are merged in order when the aggregate is finished."""
        return sf.collect_list(sf.struct(at.alias("at"), partial.alias("state")))


@dataclass(frozen=True, eq=False)
class Pair(Part):
    """A user's two Spark aggregates: over rows, and over the results of the first."""

    rows: Column
    partials: Callable[[Column], Column]

    def inputs(self, rows: DataFrame) -> list[Input]:
        return []

    def of_rows(self, inputs: Sequence[Column]) -> Column:
        return self.rows

    def step(self, inputs: tuple[str, ...], output: str) -> Step | None:
        return None

    def kind(self, rows: DataFrame, inputs: Sequence[Column]) -> Any:
        return rows.groupBy().agg(self.rows.alias("x")).schema[0].dataType

    def merge(self, partial: Column, at: Column) -> Column:
        return self.partials(partial)
