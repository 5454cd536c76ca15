"""Partials: what is computed over some rows, and how two of them become one.

count, sum, min and max are distributive: a partial is of the same kind as the result. The mean and the variance are
algebraic: made of a few distributive partials. A user's own aggregate brings its state, or a pair of Spark columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DecimalType, DoubleType, StructType

from include.windows.aggregates.fold import StateStep, Step

Input: TypeAlias = str | Column
"""A column of the rows by its name, or an expression over them."""


class Part(Protocol):
    """A partial."""

    def inputs(self, rows: DataFrame) -> list[Input]:
        """Return what it is computed from."""

    def of_rows(self, inputs: Sequence[Column]) -> Column | None:
        """Return Spark's aggregate over rows, or None where only Arrow can compute it."""

    def step(self, inputs: tuple[str, ...], output: str) -> Step | StateStep | None:
        """Return Arrow's, or None where only Spark can compute it."""

    def kind(self, rows: DataFrame, inputs: Sequence[Column]) -> Any:
        """Return the partial's Spark type."""

    def merge(self, partial: Column, at: Column) -> Column:
        """Return Spark's aggregate over partials; ``at`` is when their rows happened."""


@dataclass(frozen=True, eq=False)
class _Named(ABC):
    """A partial that Spark and Arrow both know."""

    arguments: tuple[Any, ...]

    name = ""

    def inputs(self, rows: DataFrame) -> list[Input]:
        """Return the arguments."""
        return list(self.arguments)

    @abstractmethod
    def of_rows(self, inputs: Sequence[Column]) -> Column:
        """Return Spark's aggregate over rows."""

    def step(self, inputs: tuple[str, ...], output: str) -> Step | None:
        """Return Arrow's."""
        return Step(self.name, inputs, output)

    def kind(self, rows: DataFrame, inputs: Sequence[Column]) -> Any:
        """Return what Spark's own aggregate would be."""
        return rows.groupBy().agg(self.of_rows(inputs).alias("x")).schema[0].dataType


class Count(_Named):
    """How many rows, or values that are not null."""

    name = "count"

    def of_rows(self, inputs: Sequence[Column]) -> Column:
        """Return Spark's count."""
        return sf.count(inputs[0] if inputs else sf.lit(1))

    def merge(self, partial: Column, at: Column) -> Column:
        """Add counts up."""
        return sf.sum(partial)


@dataclass(frozen=True, eq=False)
class Sum(_Named):
    """The sum.

    Attributes:
        mean: Whether it is wanted for a mean: Spark adds up doubles there, unless it has decimals.
    """

    mean: bool = False

    name = "sum"

    def inputs(self, rows: DataFrame) -> list[Input]:
        """Return the argument, as a double where Spark would."""
        (column,) = super().inputs(rows)
        kept = not self.mean or isinstance(rows.select(column).schema[0].dataType, DecimalType | DoubleType)
        return [column if kept else (sf.col(column) if isinstance(column, str) else column).cast("double")]

    def of_rows(self, inputs: Sequence[Column]) -> Column:
        """Return Spark's sum."""
        return sf.sum(inputs[0])

    def merge(self, partial: Column, at: Column) -> Column:
        """Add sums up."""
        return sf.sum(partial)


class Least(_Named):
    """The minimum."""

    name = "min"

    def of_rows(self, inputs: Sequence[Column]) -> Column:
        """Return Spark's minimum."""
        return sf.min(inputs[0])

    def merge(self, partial: Column, at: Column) -> Column:
        """Return the least of minima."""
        return sf.min(partial)


class Greatest(_Named):
    """The maximum."""

    name = "max"

    def of_rows(self, inputs: Sequence[Column]) -> Column:
        """Return Spark's maximum."""
        return sf.max(inputs[0])

    def merge(self, partial: Column, at: Column) -> Column:
        """Return the greatest of maxima."""
        return sf.max(partial)


class Moments(_Named):
    """Count, mean and sum of squared deviations from it.

    Reference: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
    Deviation: sums of squares would be distributive and cheaper, but lose all digits where the mean is large.
    """

    name = "moments"

    def of_rows(self, inputs: Sequence[Column]) -> Column:
        """Return them as a struct, of zeros where there is no value."""
        x = inputs[0].cast("double")
        zero = sf.lit(0.0)
        return sf.struct(
            sf.count(x).alias("n"),
            sf.coalesce(sf.avg(x), zero).alias("mean"),
            sf.coalesce(sf.var_pop(x) * sf.count(x), zero).alias("m2"),
        )

    def merge(self, partial: Column, at: Column) -> Column:
        """Merge them one after the other."""

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
class State:
    """A user's state, folded in Python."""

    arguments: tuple[str, ...]
    init: Callable[[], tuple[Any, ...]]
    update: Callable[[tuple[Any, ...], Any], tuple[Any, ...]]
    ddl: str

    def inputs(self, rows: DataFrame) -> list[Input]:
        """Return the arguments."""
        return list(self.arguments)

    def of_rows(self, inputs: Sequence[Column]) -> Column | None:
        """Return None: Spark cannot."""
        return None

    def step(self, inputs: tuple[str, ...], output: str) -> StateStep:
        """Return the fold of the user's functions."""
        return StateStep(inputs, output, self.arguments, self.init, self.update)

    def kind(self, rows: DataFrame, inputs: Sequence[Column]) -> Any:
        """Return the state's type."""
        return StructType.fromDDL(self.ddl)

    def merge(self, partial: Column, at: Column) -> Column:
        """Collect the states, each with its time: they are merged in order when the aggregate is finished."""
        return sf.collect_list(sf.struct(at.alias("at"), partial.alias("state")))


@dataclass(frozen=True, eq=False)
class Pair:
    """A user's two Spark aggregates: over rows, and over what the first gave."""

    rows: Column
    partials: Callable[[Column], Column]

    def inputs(self, rows: DataFrame) -> list[Input]:
        """Return nothing: the first aggregate names its columns itself."""
        return []

    def of_rows(self, inputs: Sequence[Column]) -> Column:
        """Return the first."""
        return self.rows

    def step(self, inputs: tuple[str, ...], output: str) -> Step | None:
        """Return None: Arrow cannot."""
        return None

    def kind(self, rows: DataFrame, inputs: Sequence[Column]) -> Any:
        """Return the type of what the first gives."""
        return rows.groupBy().agg(self.rows.alias("x")).schema[0].dataType

    def merge(self, partial: Column, at: Column) -> Column:
        """Return the second."""
        return self.partials(partial)
