"""Tuples of two streams, and the pairs found by comparing all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from millrace.joins.join_plan import TIME, JoinPlan
from millrace.model.join import BROADCAST, JoinDefinition, JoinStream, JoinTask

SCHEMA = pa.schema([(TIME, pa.int64()), ("id", pa.int64()), ("key", pa.string()), ("other", pa.int32())])
ROW = st.tuples(
    st.integers(-20, 20), st.integers(0, 99), st.one_of(st.none(), st.sampled_from("ab")), st.integers(0, 2)
)
ROWS = st.lists(ROW, max_size=25)
SECOND = 1_000_000


def table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema = SCHEMA) -> pa.Table:
    """Return rows of (second, id, key, other) as tuples."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    times = [second * SECOND for second in columns[0]]
    return pa.table([times, *columns[1:]], schema=schema)


def brute_force(task: JoinTask, left: Sequence[tuple[Any, ...]], right: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return the pairs of row numbers that a task's predicate accepts."""
    place = {"id": 1, "key": 2, "other": 3}
    return sorted(
        (i, j)
        for i, a in enumerate(left)
        for j, b in enumerate(right)
        if task.after_s <= b[0] - a[0] <= task.before_s
        and all(a[place[x]] is not None and a[place[x]] == b[place[y]] for x, y in task.on)
    )


def plan(folder: Any, *tasks: JoinTask, workers: int = 4, late_s: float = 0.0, forwarding: str = BROADCAST) -> JoinPlan:
    """Return a plan of the streams ``r`` and ``s``."""
    columns = {name: name for name in ("id", "key", "other")}
    streams = tuple(JoinStream(name, "", "time", columns, late_s) for name in "rs")
    definition = JoinDefinition(streams, tasks, str(folder), str(folder), 1000, forwarding)
    return JoinPlan(definition, {"r": SCHEMA, "s": SCHEMA}, folder, tuple(range(workers)))
