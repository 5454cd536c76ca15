"""A micro-batch in which every worker gets every block: pairs are found in the batch of their later tuple.

Each pair meets once: a new tuple meets an older one at the worker that keeps the older one, and two tuples of one batch
meet at the worker that keeps the left one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Row

from millrace.joins.batch_plan import BatchPlan
from millrace.joins.blocks import Block, Kept, concat
from millrace.joins.join_plan import JoinPlan
from millrace.joins.results import result_rows
from millrace.joins.window import Window
from millrace.joins.worker_batch import WorkerBatch


class Broadcast(WorkerBatch):
    """A micro-batch of one worker that gets all blocks and keeps those that the plan assigns to it."""

    def __init__(self, plan: JoinPlan, batch: BatchPlan, worker: int, blocks: Sequence[Block], window: Window) -> None:
        super().__init__(plan, batch, worker, blocks, window)
        self._all = blocks
        self.own = [block for block, home in zip(blocks, batch.place(blocks), strict=True) if home == worker]

    def output(self) -> Iterator[Row]:
        """Join the blocks, keep its own, drop expired tuples and hand over what is to move."""
        self._receive()
        new, kept = self.unpacked(self._all), self.unpacked(self.own)
        yield from self._join(new, kept)
        for stream, each in kept.items():
            self.window.add(stream, self.number, each)
        oldest = self.plan.oldest_live(self.clocks)
        self.window.expire({number: oldest[name] for name, number in self.plan.numbers.items()})
        for move in self.batch.moves:
            if move.source == self.worker:
                yield from self.hand(move.target, self.window.take(move.tuples, self.number))

    def _receive(self) -> None:
        received = self.received().values()
        for stream in {stream for sets in received for stream in sets}:
            # numbered between the last batch's sets and this one's, because the planned moves include these tuples
            self.window.add(stream, self.number - 1, concat([sets[stream] for sets in received if stream in sets]))

    def _join(self, new: Mapping[int, Kept], kept: Mapping[int, Kept]) -> Iterator[Row]:
        for task in self.plan.definition.tasks:
            left, right = self.plan.numbers[task.left], self.plan.numbers[task.right]
            here = pa.concat_tables([self.window.tuples(left), kept[left].tuples])
            yield from result_rows(self.plan, task, here, new[right].tuples)
            yield from result_rows(self.plan, task, new[left].tuples, self.window.tuples(right))
