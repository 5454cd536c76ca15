"""From rows of one stream to blocks: drops what is late, sheds a share, cuts the rest, and sends it to every worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from include.joins.blocks import ARROW, NEVER, pack, pack_times
from include.joins.matching import TIME
from include.joins.plan import Plan, micros
from include.joins.terms import Terms, TermsFolder

HASH = "_hash"
"""Spark's 64-bit hash of a row: what decides whether it is shed."""
GOLDEN = 0.6180339887498949
"""Moves the shed part of the hash's range from batch to batch, so that no key is always the one to go."""

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def sheds(hashes: npt.NDArray[np.int64], batch_id: int, share: float) -> Bools:
    """Say which rows of a batch are shed: by their content, so that a repeated batch sheds the same.

    Args:
        hashes: 64-bit hashes of the rows.
        batch_id: Spark's batch id.
        share: Share to shed, 0..1.
    """
    at = (hashes & 0x7FFFFFFF) / float(1 << 31)
    return (at + batch_id * GOLDEN) % 1.0 < share


def router(plan: Plan, stream: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that Spark maps over a stream's rows."""
    late_us = next(micros(s.late_s) for s in plan.definition.streams if s.name == stream)

    def route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise RuntimeError("a router runs in a task of Spark only")
        terms = TermsFolder(plan.folder).read(batch_of(context))
        number, keys = 0, [plan.keys[worker] for worker in terms.reach]
        for batch in batches:
            cut = _cut(plan, stream, pa.Table.from_batches([batch]), terms, late_us)
            yield _sent(cut, keys, plan.numbers[stream], context.partitionId(), number)
            number += len(cut)

    return route


def batch_of(context: object) -> int:
    """Return the id of the micro-batch that a task belongs to."""
    return int(context.getLocalProperty("streaming.sql.batchId"))  # type: ignore[attr-defined]


def _cut(
    plan: Plan, stream: str, rows: pa.Table, terms: Terms, late_us: int
) -> list[tuple[int, int, int, bytes, bytes]]:
    """Return rows, late rows, newest event time, tuples and times of what was shed, of each block."""
    times = rows[TIME]
    valid = np.asarray(times.is_valid())
    moments = np.asarray(times.fill_null(NEVER).to_numpy(), np.int64)
    newest = int(moments.max()) if len(moments) else NEVER
    clock = terms.clocks.get(stream)
    on_time = valid if clock is None else valid & (moments >= clock - late_us)
    shed = on_time & sheds(rows[HASH].to_numpy(), terms.batch_id, terms.settings.shed)
    tuples = rows.filter(pa.array(on_time & ~shed)).select(plan.schemas[stream].names).cast(plan.schemas[stream])
    late = int(len(moments) - on_time.sum())
    dropped = moments[shed]
    size = terms.settings.block
    count = max(1, -(-tuples.num_rows // size))
    bounds = len(dropped) * np.arange(count + 1) // count  # what was shed belongs to the blocks in equal parts
    return [
        (
            min(size, tuples.num_rows - i * size),
            late if i == 0 else 0,
            newest,
            pack(tuples.slice(i * size, size)),
            pack_times(dropped[bounds[i] : bounds[i + 1]]),
        )
        for i in range(count)
    ]


def _sent(
    cut: list[tuple[int, int, int, bytes, bytes]], keys: list[int], stream: int, part: int, first: int
) -> pa.RecordBatch:
    """Return one row for each block and worker."""
    rows, late, newest, tuples, shed = zip(*cut, strict=True)
    times = len(keys)

    def each(values: object, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(pa.array(np.repeat(np.arange(len(cut)), times)))

    columns = [
        pa.array(keys * len(cut), pa.int32()),
        pa.array([stream] * (len(cut) * times), pa.int32()),
        pa.array([part] * (len(cut) * times), pa.int32()),
        each(range(first, first + len(cut)), pa.int32()),
        each(rows, pa.int32()),
        each(late, pa.int32()),
        each(newest, pa.int64()),
        each(tuples, pa.binary()),
        each(shed, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW)
