"""Compute aggregates in two levels: partials of some rows of a group, then their merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    VariantType,
)

from millrace.model.errors import MillraceError
from millrace.windows.aggregates import fold
from millrace.windows.aggregates.aggregate import Aggregate
from millrace.windows.aggregates.part import Named

NESTED = (ArrayType, MapType, StructType, VariantType)
"""Types that rows cannot be grouped by: Arrow does not support them, and Python cannot hash their values."""
# so that workers of a user's cluster do not need Millrace
cloudpickle.register_pickle_by_value(fold)


@dataclass(frozen=True)
class AggregationPlan:
    """Aggregates over the rows of one frame.

    Attributes:
        rows: The frame.
        keys: Grouping columns.
        aggregates: Aggregates to compute.
    """

    rows: DataFrame
    keys: tuple[Any, ...]
    aggregates: tuple[Aggregate, ...]

    def __post_init__(self) -> None:
        """Check the aggregates and their names.

        Raises:
            MillraceError: If there is no aggregate, or two columns would have the same name.
        """
        if not self.aggregates:
            raise MillraceError("aggregates", (), "at least one", "Add one, such as count().")
        names = [*self.key_names, *self.names]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise MillraceError("aggregates", ", ".join(twice), "distinct names", "Rename one with .alias(name).")

    @property
    def needs_arrow(self) -> bool:
        """Whether Spark alone cannot compute the partials."""
        return any(part.of_rows([sf.lit(0)]) is None for a in self.aggregates for part in a.parts)

    @cached_property
    def needs_spark(self) -> tuple[str, ...]:
        """Names of the aggregates whose partials Arrow cannot compute."""
        pairs = zip(self.names, self.aggregates, strict=True)
        return tuple(name for name, a in pairs if any(p.step((), "") is None for p in a.parts))

    @cached_property
    def key_names(self) -> list[str]:
        """Spark's names for the keys."""
        return list(self.rows.select(*self.keys).columns)

    @cached_property
    def names(self) -> list[str]:
        """Spark's names for the aggregates."""
        return [a.name or self._reference(a)[0] for a in self.aggregates]

    def prepared(self, also: Mapping[str, Column]) -> DataFrame:
        """Return the rows with only the keys, the aggregates' inputs and the caller's columns."""
        keys = [sf.col(k) if isinstance(k, str) else k for k in self.keys]
        named = dict(zip(self._keys, keys, strict=True))
        for _, names, columns in self._parts:
            named |= dict(zip(names, columns, strict=True))
        return self.rows.select(*(column.alias(name) for name, column in {**also, **named}.items()))

    def by_spark(self, group: Column) -> DataFrame:
        """Return the partials of each group and key, computed by Spark; not for aggregates that need Arrow.

        Args:
            group: Named grouping columns in addition to the keys.
        """
        keys = [(sf.col(k) if isinstance(k, str) else k).alias(n) for k, n in zip(self.keys, self._keys, strict=True)]
        partials = [part.of_rows(columns) for part, _, columns in self._parts]
        return self.rows.groupBy(group, *keys).agg(
            *(p.alias(_part(i)) for i, p in enumerate(partials) if p is not None)
        )

    def by_arrow(self, prepared: DataFrame, by: Sequence[str], at: str) -> DataFrame:
        """Return the partials of each group and key in each partition, computed by Arrow without a shuffle.

        Args:
            prepared: What ``prepared`` returned.
            by: Its grouping columns in addition to the keys; they are dropped.
            at: Its column whose greatest value is kept.

        Raises:
            MillraceError: If Arrow cannot group by a key or compute a partial.
        """
        self._check_arrow(prepared)
        fields = [prepared.schema[at], *(prepared.schema[k] for k in self._keys)]
        fields += [StructField(_part(i), p.kind(self.rows, columns)) for i, (p, _, columns) in enumerate(self._parts)]
        partials = [part.step(tuple(names), _part(i)) for i, (part, names, _) in enumerate(self._parts)]
        steps = (fold.Step("max", (at,), at), *(step for step in partials if step is not None))
        schema = StructType([StructField(f.name, f.dataType) for f in fields])
        session = self.rows.sparkSession
        arrow = to_arrow_schema(schema, timezone=session.conf.get("spark.sql.session.timeZone"))
        checked = session.conf.get("spark.sql.ansi.enabled") == "true"
        return prepared.mapInArrow(fold.Fold((*by, *self._keys), steps, arrow, checked).__call__, schema)

    def merged(self, partials: DataFrame, group: Sequence[Column], at: Column) -> DataFrame:
        """Return the results of each group and key.

        Args:
            partials: What ``by_spark`` or ``by_arrow`` returned.
            group: Named grouping columns in addition to the keys.
            at: Event time of a partial's rows.
        """
        parts = []
        for i, (part, _, _) in enumerate(self._parts):
            kind = partials.schema[_part(i)].dataType
            merge = part.merge(sf.col(_part(i)), at)
            # a sum of sums would be ten digits wider than Spark's sum, and a mean would lose as many trailing digits
            narrow = isinstance(part, Named) and part.name == "sum" and isinstance(kind, DecimalType)
            parts.append((merge.cast(kind) if narrow else merge).alias(_part(i)))
        merged = partials.groupBy(*group, *(sf.col(k) for k in self._keys)).agg(*parts)
        others = merged.columns[: len(group)]
        keys = [sf.col(k).alias(n) for k, n in zip(self._keys, self.key_names, strict=True)]
        return merged.select(*others, *keys, *self._finished())

    def _finished(self) -> list[Column]:
        results, begin = [], 0
        for name, aggregate in zip(self.names, self.aggregates, strict=True):
            end = begin + len(aggregate.parts)
            result = aggregate.finish([sf.col(_part(i)) for i in range(begin, end)])
            if aggregate.spark is not None:
                result = result.cast(self._reference(aggregate)[1])
            results.append(result.alias(name))
            begin = end
        return results

    @property
    def _keys(self) -> list[str]:
        return [f"__key_{i}" for i in range(len(self.keys))]

    @cached_property
    def _parts(self) -> list[tuple[Any, list[str], list[Column]]]:
        """Return each partial with its inputs' names and columns.

        Partials of one column share it, because the transfer to Python is most of the work of a fold. Equal expressions
        are not detected: different user functions look alike.
        """
        parts = []
        shared: dict[str, str] = {}
        for i, part in enumerate(part for a in self.aggregates for part in a.parts):
            inputs = part.inputs(self.rows)
            names = [f"__in_{i}_{j}" for j in range(len(inputs))]
            names = [shared.setdefault(c, n) if isinstance(c, str) else n for c, n in zip(inputs, names, strict=True)]
            parts.append((part, names, [sf.col(c) if isinstance(c, str) else c for c in inputs]))
        return parts

    def _reference(self, aggregate: Aggregate) -> tuple[str, Any]:
        field = self.rows.groupBy().agg(aggregate.spark).schema[0]
        return field.name, field.dataType

    def _check_arrow(self, prepared: DataFrame) -> None:
        if self.needs_spark:
            names = ", ".join(self.needs_spark)
            remedy = 'On a stream, set late="panes"; with user_defined aggregates, compute these in a separate frame.'
            raise MillraceError("aggregates", names, "no user_columns here", remedy)
        for name, key in zip(self.key_names, self._keys, strict=True):
            kind = prepared.schema[key].dataType
            if isinstance(kind, NESTED):
                raise MillraceError("keys", f"{name}: {kind.simpleString()}", "plain types", "Group by its fields.")


def _part(i: int) -> str:
    return f"__part_{i}"
