"""Turn the rows of one stream into blocks: drop late rows, shed a share, cut the rest, send blocks to every worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millrace.joins.batch_plan import BatchPlan, BatchPlans
from millrace.joins.blocks import ARROW, NEVER, Block, pack, pack_times
from millrace.joins.join_plan import TIME, JoinPlan, micros

HASH = "_hash"
"""Spark's 64-bit hash of a row. It decides whether the row is shed."""
GOLDEN = 0.6180339887498949
"""Shifts the shed part of the hash range from batch to batch, so that no key is always shed."""


def sheds(hashes: npt.NDArray[np.int64], batch_id: int, share: float) -> npt.NDArray[np.bool_]:
    """Return which rows of a batch are shed. Depends on their content, so a repeated batch sheds the same rows.

    Args:
        hashes: 64-bit hashes of the rows.
        batch_id: Spark's batch id.
        share: Share to shed, 0..1.
    """
    at = (hashes & 0x7FFFFFFF) / float(1 << 31)
    return (at + batch_id * GOLDEN) % 1.0 < share


def router(plan: JoinPlan, stream: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that Spark maps over a stream's rows."""

    def route(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise RuntimeError("a router runs only in a Spark task")
        batch = BatchPlans(plan.folder).read(batch_of(context))
        number = 0
        for some in rows:
            blocks = cut(plan, stream, pa.Table.from_batches([some]), batch, context.partitionId(), number)
            yield from deliveries(plan, stream, batch, blocks)
            number += len(blocks)

    return route


def batch_of(context: object) -> int:
    """Return the id of a task's micro-batch."""
    return int(context.getLocalProperty("streaming.sql.batchId"))  # type: ignore[attr-defined]


def cut(plan: JoinPlan, stream: str, rows: pa.Table, batch: BatchPlan, part: int, first: int) -> list[Block]:
    """Cut rows of a stream into blocks: at least one, to carry the late and shed counts even if no rows are left.

    Args:
        plan: The join.
        stream: Name of the stream.
        rows: The stream's columns, :data:`TIME` and :data:`HASH`.
        batch: The plan of the batch.
        part: Number of this task.
        first: Number of the first block.
    """
    times = rows[TIME]
    timed = np.asarray(times.is_valid())
    event_us = np.asarray(times.fill_null(NEVER).to_numpy(), np.int64)
    on_time = timed & (event_us >= _oldest_on_time(plan, stream, batch))
    shed = on_time & sheds(rows[HASH].to_numpy(), batch.batch_id, batch.settings.shed)
    schema = plan.schemas[stream]
    tuples = rows.filter(pa.array(on_time & ~shed)).select(schema.names).cast(schema)
    shed_us, size, newest = event_us[shed], batch.settings.block, int(event_us.max(initial=NEVER))
    count = max(1, -(-tuples.num_rows // size))
    bounds = len(shed_us) * np.arange(count + 1) // count  # divide the shed tuples equally between the blocks
    return [
        Block(
            stream=plan.numbers[stream],
            part=part,
            number=first + i,
            rows=min(size, tuples.num_rows - i * size),
            late=0 if i else int(len(on_time) - on_time.sum()),
            newest=newest,
            tuples=pack(tuples.slice(i * size, size)),
            shed=pack_times(shed_us[bounds[i] : bounds[i + 1]]),
        )
        for i in range(count)
    ]


def _oldest_on_time(plan: JoinPlan, stream: str, batch: BatchPlan) -> int:
    late_s = plan.definition.streams[plan.numbers[stream]].late_s
    clock = batch.clocks.get(stream)
    return NEVER if clock is None else clock - micros(late_s)


def deliveries(plan: JoinPlan, stream: str, batch: BatchPlan, blocks: Sequence[Block]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that bring blocks to their workers: to all of them, or to the end of the chain where they enter.

    Args:
        plan: The join.
        stream: Name of the blocks' stream.
        batch: The plan of the batch.
        blocks: Blocks of one task, at least one.
    """
    keys = [plan.keys[worker] for worker in batch.reach]
    if not batch.chain:
        yield copies(blocks, keys)
        return
    entry = keys.pop(-plan.sides[plan.numbers[stream]])
    yield copies(blocks, [entry])
    if keys and blocks[0].number == 0:  # Spark runs only workers that get a row
        yield copies([blocks[0]._replace(rows=0, late=0, newest=NEVER, tuples=b"", shed=b"")], keys)


def copies(blocks: Sequence[Block], keys: Sequence[int]) -> pa.RecordBatch:
    """Return a row per block and worker.

    Args:
        blocks: The blocks, at least one.
        keys: Keys of the workers to send them to.
    """
    each = pa.array(np.repeat(np.arange(len(blocks)), len(keys)))
    columns = zip(*blocks, strict=True)
    of_blocks = [pa.array(values, kind).take(each) for values, kind in zip(columns, ARROW.types[1:], strict=True)]
    return pa.RecordBatch.from_arrays([pa.array([*keys] * len(blocks), pa.int32()), *of_blocks], schema=ARROW)
