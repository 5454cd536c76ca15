"""A worker of a join: keeps its part of the window in Spark's state and joins it with every new block.

Each pair meets once: a new tuple meets an older one at the worker that keeps the older one, and two tuples of one batch
meet at the worker that keeps the left one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from millrace.joins.batch_plan import BatchPlan, BatchPlans
from millrace.joins.blocks import (
    NEVER,
    Block,
    HandOver,
    Kept,
    concat,
    pack,
    pack_kept,
    unpack,
    unpack_kept,
    unpack_times,
)
from millrace.joins.join_plan import TIME, JoinPlan
from millrace.joins.matching import pairs
from millrace.joins.router import batch_of
from millrace.joins.window import KEY, NAME, VALUE, Window
from millrace.model.join import JoinTask

OUTPUT = "kind string, task string, worker int, content binary"
"""Spark schema of a worker's output: pairs of a task, tuples handed to another worker, and the worker's report."""
PAIRS, HANDED, REPORT = "pairs", "handed", "report"


@dataclass(frozen=True)
class WorkerReport:
    """Report of a worker on one batch.

    Attributes:
        worker: Its number.
        tuples: Tuples that it keeps after the batch.
        offered: Tuples that it would keep if none had been shed.
        messages: Blocks that it received.
        bytes: Their size.
        shed: Tuples shed from the blocks that it keeps.
        late: Late tuples of those blocks.
        arrived: Tuples that arrived in the batch, by stream, including shed and late ones; the same at every worker.
        dropped: Tuples that were shed, by stream.
        clocks: Newest event time by stream.
        partitions: State partitions of the checkpoint, one per worker: the join's maximum number of workers.
    """

    worker: int
    tuples: int
    offered: int
    messages: int
    bytes: int
    shed: int
    late: int
    arrived: Mapping[str, int]
    dropped: Mapping[str, int]
    clocks: Mapping[str, int]
    partitions: int | None = None


@dataclass(frozen=True)
class WorkerBatch:
    """A micro-batch as one worker sees it.

    Attributes:
        plan: The plan of the batch.
        worker: The worker's number.
        blocks: All blocks of the batch, in the same order at every worker.
        own: The blocks that this worker keeps.
        new: The tuples of all blocks, by stream.
        kept: The tuples of its own blocks, by stream.
    """

    plan: BatchPlan
    worker: int
    blocks: Sequence[Block]
    own: Sequence[Block]
    new: Mapping[int, Kept]
    kept: Mapping[int, Kept]


class JoinWorker(StatefulProcessor):  # type: ignore[misc]
    """Process the blocks of a batch; Spark runs one per worker that the batch reaches.

    Args:
        plan: The join.
    """

    def __init__(self, plan: JoinPlan) -> None:
        self._plan = plan
        self._schemas = {number: plan.schemas[name] for name, number in plan.numbers.items()}

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._state = handle.getMapState(NAME, KEY, VALUE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Join the blocks of a batch, and keep those assigned to this worker."""
        batch = self._batch(self._plan.keys.index(key[0]), rows)
        window = Window(self._state, self._schemas)
        self._receive(window, batch)
        yield from self._join(window, batch)
        for stream, kept in batch.kept.items():
            window.add(stream, _number(batch.plan), kept)
        clocks = self._clocks(batch)
        oldest = self._plan.oldest_live(clocks)
        window.expire({number: oldest[name] for name, number in self._plan.numbers.items()})
        yield from _hand_over(window, batch)
        window.compact()
        report = self._report(window, batch, clocks)
        yield Row(kind=REPORT, task="", worker=batch.worker, content=json.dumps(asdict(report)).encode())

    def close(self) -> None:
        """Do nothing: only Spark's state is open."""

    def _batch(self, worker: int, rows: Iterator[Row]) -> WorkerBatch:
        plan = BatchPlans(self._plan.folder).read(batch_of(TaskContext.get()))
        blocks = sorted((Block(*row[1:]) for row in rows), key=lambda block: block.order)
        own = [block for block, home in zip(blocks, plan.place(blocks), strict=True) if home == worker]
        content = {block.order: self._unpack(block) for block in blocks}
        new, kept = self._by_stream(blocks, content), self._by_stream(own, content)
        return WorkerBatch(plan, worker, blocks, own, new, kept)

    def _unpack(self, block: Block) -> Kept:
        return Kept(unpack(block.tuples, self._schemas[block.stream]), unpack_times(block.shed))

    def _by_stream(self, blocks: Sequence[Block], content: Mapping[tuple[int, int, int], Kept]) -> dict[int, Kept]:
        sets = {number: [Kept(schema.empty_table(), unpack_times(b""))] for number, schema in self._schemas.items()}
        for block in blocks:
            sets[block.stream].append(content[block.order])
        return {stream: concat(of_stream) for stream, of_stream in sets.items()}

    def _receive(self, window: Window, batch: WorkerBatch) -> None:
        """Keep what other workers handed over at the end of the previous batch."""
        plans, received = BatchPlans(self._plan.folder), []
        for target, source in batch.plan.handed:
            if target == batch.worker:
                received.append(unpack_kept(plans.handed(batch.plan.batch_id, target, source), self._schemas))
        for stream in {stream for sets in received for stream in sets}:
            # numbered between the last batch's sets and this one's, because the planned moves include these tuples
            window.add(stream, _number(batch.plan) - 1, concat([sets[stream] for sets in received if stream in sets]))

    def _join(self, window: Window, batch: WorkerBatch) -> Iterator[Row]:
        for task in self._plan.definition.tasks:
            left, right = self._plan.numbers[task.left], self._plan.numbers[task.right]
            older = window.tuples(right)
            here = pa.concat_tables([window.tuples(left), batch.kept[left].tuples])
            yield from self._pairs(task, here, batch.new[right].tuples)
            yield from self._pairs(task, batch.new[left].tuples, older)

    def _pairs(self, task: JoinTask, left: pa.Table, right: pa.Table) -> Iterator[Row]:
        schema = self._plan.result_schema(task)
        for rows_left, rows_right in pairs(task, left, right):
            columns = [
                *self._result_columns(task.left, left.take(pa.array(rows_left))),
                *self._result_columns(task.right, right.take(pa.array(rows_right))),
            ]
            yield Row(kind=PAIRS, task=task.name, worker=0, content=pack(pa.Table.from_arrays(columns, schema=schema)))

    def _result_columns(self, stream: str, tuples: pa.Table) -> list[pa.ChunkedArray]:
        columns = self._plan.result_columns(stream)
        return [tuples[TIME].cast(kind) if name == "time" else tuples[name] for name, kind in columns]

    def _clocks(self, batch: WorkerBatch) -> dict[str, int]:
        clocks = dict(batch.plan.clocks)
        for block in batch.blocks:
            if block.newest != NEVER:
                name = self._plan.names[block.stream]
                clocks[name] = max(clocks.get(name, NEVER), block.newest)
        return clocks

    def _report(self, window: Window, batch: WorkerBatch, clocks: Mapping[str, int]) -> WorkerReport:
        arrived, dropped = dict.fromkeys(self._plan.names, 0), dict.fromkeys(self._plan.names, 0)
        for block in batch.blocks:
            name = self._plan.names[block.stream]
            arrived[name] += block.rows + block.shed_rows + block.late
            dropped[name] += block.shed_rows
        return WorkerReport(
            worker=batch.worker,
            tuples=window.size,
            offered=window.offered,
            messages=len(batch.blocks),
            bytes=sum(len(b.tuples) + len(b.shed) for b in batch.blocks),
            shed=sum(b.shed_rows for b in batch.own),
            late=sum(b.late for b in batch.own),
            arrived=arrived,
            dropped=dropped,
            clocks=clocks,
            partitions=len(self._plan.keys),
        )


def _number(plan: BatchPlan) -> int:
    """Return the number of a batch's sets; the odd number before it is for tuples handed over before the batch."""
    return 2 * plan.batch_id


def _hand_over(window: Window, batch: WorkerBatch) -> Iterator[Row]:
    for move in batch.plan.moves:
        if move.source == batch.worker:
            taken = window.take(move.tuples, _number(batch.plan))
            over = HandOver(batch.worker, sum(k.tuples.num_rows for k in taken.values()), pack_kept(taken))
            yield Row(kind=HANDED, task="", worker=move.target, content=over.write())
