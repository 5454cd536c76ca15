"""Compute aggregates ahead, over some of the rows of each group: in Arrow, before any shuffle.

Spark has no stateless aggregation for streams. Folding the rows of a partition in Arrow provides one. It outputs few
rows, and the result does not depend on how rows were spread over partitions and batches.

This file travels to Spark's Python workers by value, so it imports only Arrow: workers need no Millrace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

CHUNK_ROWS = 1 << 20
"""Rows to fold at once. Limits the memory of a worker."""
LARGEST_LONG = (1 << 63) - 1


@dataclass(frozen=True)
class Step:
    """One partial of every group.

    Attributes:
        kind: A key of ``KINDS``.
        inputs: Columns it is computed from.
        output: Column with the partial.
    """

    kind: str
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True)
class StateStep:
    """A user's state of every group.

    Attributes:
        inputs: Columns it is computed from.
        output: Column with the state.
        names: Names of the inputs in ``update``.
        init: Returns an empty state.
        update: Takes a state and a group's rows as a pandas frame, returns the new state.
    """

    inputs: tuple[str, ...]
    output: str
    names: tuple[str, ...]
    init: Callable[[], tuple[Any, ...]]
    update: Callable[[tuple[Any, ...], Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Fold:
    """A pass over the rows of one partition, for ``mapInArrow``.

    Attributes:
        by: Columns to group by.
        steps: Partials.
        schema: Output columns in order; only grouping columns and partials are allowed.
        checked: Whether a sum that leaves the range of a long is an error, as it is in Spark's ANSI mode.
    """

    by: tuple[str, ...]
    steps: tuple[Step | StateStep, ...]
    schema: pa.Schema
    checked: bool = True

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row per group and chunk of rows.

        Raises:
            ArrowInvalid: If a sum overflows and sums are checked.
        """
        for rows in _chunks(batches):
            yield from self.of(rows).to_batches()

    def of(self, rows: pa.Table) -> pa.Table:
        """Return a row per group of the given rows."""
        columns = {f"in_{i}": rows[name] for i, name in enumerate(self.by)}
        wanted: list[tuple[Any, str]] = []
        finishers: dict[str, Callable[[pa.Table], Any]] = {}
        for i, step in enumerate(self.steps):
            if isinstance(step, StateStep):
                continue
            more, aggregations, finish = KINDS[step.kind](f"{i}", [rows[c] for c in step.inputs], self.checked)
            columns |= more
            wanted += aggregations
            finishers[step.output] = finish
        keys = [f"in_{i}" for i in range(len(self.by))]
        if len(finishers) < len(self.steps):
            columns["row"] = pa.array(range(len(rows)), pa.int64())
            wanted.append(("row", "list"))
        grouped = pa.table(columns).group_by(keys, use_threads=False).aggregate(wanted)
        output = {name: grouped[key] for name, key in zip(self.by, keys, strict=True)}
        for step in self.steps:
            if isinstance(step, StateStep):
                output[step.output] = _states(step, rows, grouped["row_list"], self.schema.field(step.output).type)
            else:
                output[step.output] = finishers[step.output](grouped)
        return pa.table({field.name: _cast(output[field.name], field.type) for field in self.schema})


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += len(batch)
        if rows >= CHUNK_ROWS:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held)


def _cast(column: Any, kind: pa.DataType) -> Any:
    return column if column.type == kind else column.cast(kind)


def _states(step: StateStep, rows: pa.Table, groups: Any, kind: pa.DataType) -> pa.Array:
    groups = groups.combine_chunks()
    ordered = rows.select(list(step.inputs)).take(groups.flatten()).rename_columns(list(step.names)).to_pandas()
    names = [kind.field(i).name for i in range(kind.num_fields)]
    states, begin = [], 0
    for size in pc.list_value_length(groups).to_pylist():
        group = ordered.iloc[begin : begin + size].reset_index(drop=True)
        states.append(dict(zip(names, step.update(step.init(), group), strict=True)))
        begin += size
    return pa.array(states, kind)


Parts = tuple[dict[str, Any], list[tuple[Any, str]], Callable[[pa.Table], Any]]
"""Columns to add, aggregations to run, and how to read the partial from the result."""


def _count(i: str, inputs: Sequence[Any], checked: bool) -> Parts:
    if not inputs:
        return {}, [([], "count_all")], lambda t: t["count_all"]
    return {i: inputs[0]}, [(i, "count")], lambda t: t[f"{i}_count"]


def _sum(i: str, inputs: Sequence[Any], checked: bool) -> Parts:
    values = inputs[0]
    if checked and pa.types.is_integer(values.type) and _may_overflow(values):
        # wide enough for any sum of a chunk; the cast back to a long finds an overflow
        values = values.cast(pa.decimal128(38, 0))
    return {i: values}, [(i, "sum")], lambda t: t[f"{i}_sum"]


def _may_overflow(values: Any) -> bool:
    ends = pc.min_max(values).as_py()
    if ends["min"] is None:
        return False
    return bool(max(abs(ends["min"]), abs(ends["max"])) * len(values) > LARGEST_LONG)


def _least(i: str, inputs: Sequence[Any], checked: bool) -> Parts:
    values = inputs[0]
    if not pa.types.is_floating(values.type):
        return {i: values}, [(i, "min")], lambda t: t[f"{i}_min"]
    # in Spark, NaN is the largest number; Arrow skips it
    columns = {i: pc.if_else(pc.is_nan(values), None, values), f"{i}n": pc.is_nan(values)}
    nan = pa.scalar(float("nan"), values.type)

    def finish(t: pa.Table) -> Any:
        return pc.coalesce(t[f"{i}_min"], pc.if_else(t[f"{i}n_any"], nan, pa.scalar(None, values.type)))

    return columns, [(i, "min"), (f"{i}n", "any")], finish


def _greatest(i: str, inputs: Sequence[Any], checked: bool) -> Parts:
    values = inputs[0]
    if not pa.types.is_floating(values.type):
        return {i: values}, [(i, "max")], lambda t: t[f"{i}_max"]
    columns = {i: values, f"{i}n": pc.is_nan(values)}
    nan = pa.scalar(float("nan"), values.type)

    def finish(t: pa.Table) -> Any:
        return pc.if_else(pc.fill_null(t[f"{i}n_any"], False), nan, t[f"{i}_max"])

    return columns, [(i, "max"), (f"{i}n", "any")], finish


def _moments(i: str, inputs: Sequence[Any], checked: bool) -> Parts:
    def finish(t: pa.Table) -> Any:
        n = t[f"{i}_count"].combine_chunks()
        mean = pc.fill_null(t[f"{i}_mean"].combine_chunks(), 0.0)
        squares = pc.multiply(pc.fill_null(t[f"{i}_variance"].combine_chunks(), 0.0), n.cast(pa.float64()))
        return pa.StructArray.from_arrays([n, mean, squares], names=["n", "mean", "m2"])

    return {i: inputs[0].cast(pa.float64())}, [(i, "count"), (i, "mean"), (i, "variance")], finish


KINDS: dict[str, Callable[[str, Sequence[Any], bool], Parts]] = {
    "count": _count,
    "sum": _sum,
    "min": _least,
    "max": _greatest,
    "moments": _moments,
}
"""How Arrow computes each named partial."""
