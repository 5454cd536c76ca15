"""A micro-batch of MP-2PF: blocks hop along a chain of workers, one hop per micro-batch, and pairs meet on the way.

Tuples that enter on the left (R) go to the first worker and flow right, those that enter on the right (S) go to the
last worker and flow left. A pair meets where its tuples cross. In each batch, a worker

1. *processes*: it joins what arrived with the tuples that rest here. Arriving R also joins the copies of S that this
   worker sent to the left and that are not acknowledged: the two cross on the link. Arriving S does not join the
   copies of R, or such pairs would meet twice.
2. *forwards*: blocks move on while its tuples of a side exceed its successor's by a block. A tuple is *due* once all
   its partners have entered the chain; it moves on regardless of workloads, and leaves at the end of the chain.
3. *reports*: its report acknowledges what arrived (ACK) and says how much rests here (SIZE_CHG). The next plan brings
   both to its neighbours, which then drop their copies (*Deleting*).

A new worker joins the chain at its right end. If the chain is longer than wanted, its last worker hands everything to
its left neighbour. There, the R that comes back meets only S that enters from then on, since it has met all other S.

Reference:
    [ESJ-C] "MP-2PF". Messages are exchanged between two micro-batches, through files next to the checkpoint and the
    batch plan. So none is lost, doubled or overtaken, and a repeated batch exchanges the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Row

from millrace.joins.blocks import Kept, concat, rows_of
from millrace.joins.forwarding_rule import blocks_to_forward
from millrace.joins.results import result_rows
from millrace.joins.worker_batch import WorkerBatch

LEFT, RIGHT = 0, 1
"""Sides where tuples enter."""


class Chain(WorkerBatch):
    """A micro-batch of one worker of the chain."""

    def output(self) -> Iterator[Row]:
        """Join what arrives, keep it, and forward what may or must move on."""
        new, neighbours = self.unpacked(self.own), self.received()
        arriving, back = {stream: [kept] for stream, kept in new.items()}, dict[int, Kept]()
        for source, sets in neighbours.items():
            for stream, kept in sets.items():
                if source > self.worker and self.plan.sides[stream] == LEFT:
                    back[stream] = kept
                else:
                    arriving[stream].append(kept)
        arrived = {stream: concat(sets) for stream, sets in arriving.items()}
        yield from self._join(arrived, back, new)
        for stream, kept in arrived.items():
            self.window.add(stream, self.number, concat([back[stream], kept]) if stream in back else kept)
        yield from self._forward()

    def _join(self, arrived: Mapping[int, Kept], back: Mapping[int, Kept], new: Mapping[int, Kept]) -> Iterator[Row]:
        copies = self.sent(self.worker - 1)
        for task in self.plan.definition.tasks:
            left, right = self.plan.numbers[task.left], self.plan.numbers[task.right]
            r, s = (left, right) if self.plan.sides[left] == LEFT else (right, left)
            here = [self.window.tuples(s), arrived[s].tuples]
            if s in copies:
                here.append(copies[s].tuples)
            meetings = [(arrived[r].tuples, pa.concat_tables(here)), (self.window.tuples(r), arrived[s].tuples)]
            if r in back:
                meetings.append((back[r].tuples, new[s].tuples))
            for of_r, of_s in meetings:
                yield from result_rows(self.plan, task, *((of_r, of_s) if r == left else (of_s, of_r)))

    def _forward(self) -> Iterator[Row]:
        outgoing: dict[int, list[dict[int, Kept]]] = {}
        is_leaving = self.worker == self.batch.leaving
        for side, successor in ((LEFT, self.worker + 1), (RIGHT, self.worker - 1)):
            if side == LEFT and successor == self.batch.leaving:
                continue  # its successor is about to hand everything back
            streams = self.plan.entering(side)
            due = self._due(streams)
            if is_leaving:
                rest = self.window.take_oldest(self.window.rows(streams), streams)
                outgoing.setdefault(self.worker - 1, []).extend([rest] if side == LEFT else [due, rest])
            elif 0 <= successor < self.batch.chain:
                rest = self.window.take_oldest(self._surplus(side, streams, successor, rows_of(due)), streams)
                outgoing[successor] = [due, rest]
        for target, parts in outgoing.items():
            together = _together(parts)
            if together:
                self.copies += rows_of(together)
                yield from self.hand(target, together)

    def _due(self, streams: Sequence[int]) -> dict[int, Kept]:
        oldest = self.plan.oldest_live(self.batch.clocks)
        return self.window.take_due({stream: oldest[self.plan.names[stream]] for stream in streams})

    def _surplus(self, side: int, streams: Sequence[int], successor: int, due: int) -> int:
        """Return how many tuples exceed what the forwarding condition lets this worker keep."""
        rests, block = self.batch.rests, self.batch.settings.block
        known = due + (rests[successor][side] if successor < len(rests) else 0)
        return block * blocks_to_forward(self.window.rows(streams), known, block)


def _together(parts: Sequence[Mapping[int, Kept]]) -> dict[int, Kept]:
    sets: dict[int, list[Kept]] = {}
    for stream, kept in (item for part in parts for item in part.items() if not item[1].empty):
        sets.setdefault(stream, []).append(kept)
    return {stream: concat(of_stream) for stream, of_stream in sets.items()}
