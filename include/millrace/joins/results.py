"""Result rows of a join: the pairs of two sets of tuples, as the workers output them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Row

from millrace.joins.blocks import pack
from millrace.joins.join_plan import TIME, JoinPlan
from millrace.joins.matching import pairs
from millrace.model.join import JoinTask

OUTPUT = "kind string, task string, worker int, content binary"
"""Spark schema of a worker's output: pairs of a task, tuples handed to another worker, and the worker's report."""
PAIRS, HANDED, REPORT = "pairs", "handed", "report"


def result_rows(plan: JoinPlan, task: JoinTask, left: pa.Table, right: pa.Table) -> Iterator[Row]:
    """Yield the pairs of two sets of tuples that a task's predicate accepts.

    Args:
        plan: The join.
        task: The predicate.
        left: Tuples of its left stream.
        right: Tuples of its right stream.
    """
    schema = plan.result_schema(task)
    for rows_left, rows_right in pairs(task, left, right):
        columns = [
            *_columns(plan, task.left, left.take(pa.array(rows_left))),
            *_columns(plan, task.right, right.take(pa.array(rows_right))),
        ]
        yield Row(kind=PAIRS, task=task.name, worker=0, content=pack(pa.Table.from_arrays(columns, schema=schema)))


def _columns(plan: JoinPlan, stream: str, tuples: pa.Table) -> list[pa.ChunkedArray]:
    columns = plan.result_columns(stream)
    return [tuples[TIME].cast(kind) if name == "time" else tuples[name] for name, kind in columns]
