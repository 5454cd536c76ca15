"""One micro-batch of one worker: what arrives, what is handed over, and what both ways of passing blocks share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import Row

from millrace.joins.batch_plan import BatchPlan, BatchPlans
from millrace.joins.blocks import (
    NEVER,
    Block,
    HandOver,
    Kept,
    concat,
    pack_kept,
    rows_of,
    unpack,
    unpack_kept,
    unpack_times,
)
from millrace.joins.join_plan import JoinPlan
from millrace.joins.results import HANDED
from millrace.joins.window import NO_TIMES, Window


class WorkerBatch:
    """A micro-batch as one worker sees it.

    Args:
        plan: The join.
        batch: The plan of the batch.
        worker: The worker's number.
        blocks: The blocks that reach it, in their order.
        window: The tuples that it keeps.

    Attributes:
        own: The blocks that it keeps.
        copies: Tuples handed over at the end of the batch that it still counts as its own.
        messages: Blocks and hand-overs that it received.
        bytes: Their size.
        clocks: Newest event time by stream, as far as the worker knows.
    """

    def __init__(self, plan: JoinPlan, batch: BatchPlan, worker: int, blocks: Sequence[Block], window: Window) -> None:
        self.plan, self.batch, self.worker, self.window = plan, batch, worker, window
        self.schemas = {number: plan.schemas[name] for name, number in plan.numbers.items()}
        self.own: Sequence[Block] = blocks
        self.copies = 0
        filled = [block for block in blocks if block.tuples or block.shed]
        self.messages, self.bytes = len(filled), sum(len(b.tuples) + len(b.shed) for b in filled)
        self.clocks = dict(batch.clocks)
        for block in blocks:
            if block.newest != NEVER:
                name = plan.names[block.stream]
                self.clocks[name] = max(self.clocks.get(name, NEVER), block.newest)
        self._plans = BatchPlans(plan.folder)

    @property
    def number(self) -> int:
        """Number of the batch's sets; the odd number before it is for tuples handed over before the batch."""
        return 2 * self.batch.batch_id

    def unpacked(self, blocks: Sequence[Block]) -> dict[int, Kept]:
        """Return the tuples of blocks, by stream."""
        sets = {number: [Kept(schema.empty_table(), NO_TIMES)] for number, schema in self.schemas.items()}
        for block in blocks:
            tuples = unpack(block.tuples, self.schemas[block.stream])
            sets[block.stream].append(Kept(tuples, unpack_times(block.shed)))
        return {stream: concat(of_stream) for stream, of_stream in sets.items()}

    def received(self) -> dict[int, dict[int, Kept]]:
        """Return what other workers have handed over to this one, by their number and by stream."""
        found = {}
        for target, source in self.batch.handed:
            if target == self.worker:
                content = self._plans.handed(self.batch.batch_id, target, source)
                self.messages, self.bytes = self.messages + 1, self.bytes + len(content)
                found[source] = unpack_kept(content, self.schemas)
        return found

    def sent(self, target: int) -> dict[int, Kept]:
        """Return the copy of what this worker has handed to another, which has not acknowledged it."""
        if (target, self.worker) not in self.batch.handed:
            return {}
        return unpack_kept(self._plans.handed(self.batch.batch_id, target, self.worker), self.schemas)

    def hand(self, target: int, sets: Mapping[int, Kept]) -> Iterator[Row]:
        """Hand tuples to another worker, which gets them at the start of the next batch."""
        self._plans.hand(self.batch.batch_id + 1, target, self.worker, pack_kept(sets))
        right = {stream: kept for stream, kept in sets.items() if self.plan.sides.get(stream)}
        over = HandOver(self.worker, rows_of(sets) - rows_of(right), rows_of(right))
        yield Row(kind=HANDED, task="", worker=target, content=over.write())
