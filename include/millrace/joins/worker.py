"""A worker of a join: keeps its part of the window in Spark's state and joins it with new tuples, batch by batch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from millrace.joins.batch_plan import BatchPlan, BatchPlans
from millrace.joins.blocks import Block
from millrace.joins.broadcast import Broadcast
from millrace.joins.chain import Chain
from millrace.joins.join_plan import JoinPlan
from millrace.joins.results import REPORT
from millrace.joins.router import batch_of
from millrace.joins.window import KEY, NAME, VALUE, Window


@dataclass(frozen=True)
class WorkerReport:
    """Report of a worker on one batch. It also acknowledges what other workers handed over to it.

    Attributes:
        worker: Its number.
        tuples: Tuples that it keeps after the batch, copies included.
        offered: Tuples that it would keep if none had been shed.
        messages: Blocks that it received from streams, and hand-overs of other workers.
        bytes: Their size.
        shed: Tuples shed from the blocks that it keeps.
        late: Late tuples of those blocks.
        arrived: Tuples of those blocks by stream, including shed and late ones.
        dropped: Tuples that were shed from those blocks, by stream.
        clocks: Newest event time by stream.
        partitions: State partitions of the checkpoint, one per worker: the join's maximum number of workers.
        rests: Tuples at rest that entered the chain on the left and on the right, without copies.
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
    rests: tuple[int, int] = (0, 0)


class JoinWorker(StatefulProcessor):  # type: ignore[misc]
    """Process the blocks of a batch; Spark runs one per worker that the batch reaches.

    Args:
        plan: The join.
    """

    def __init__(self, plan: JoinPlan) -> None:
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._state = handle.getMapState(NAME, KEY, VALUE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Join the tuples of a batch, and keep those assigned to this worker."""
        worker = self._plan.keys.index(key[0])
        batch = BatchPlans(self._plan.folder).read(batch_of(TaskContext.get()))
        yield from process(self._plan, batch, worker, (Block(*row[1:]) for row in rows), self._state)

    def close(self) -> None:
        """Do nothing: only Spark's state is open."""


def process(plan: JoinPlan, batch: BatchPlan, worker: int, blocks: Iterable[Block], state: Any) -> Iterator[Row]:
    """Yield a worker's output of a batch: pairs, what it hands over, and its report.

    Args:
        plan: The join.
        batch: The plan of the batch.
        worker: The worker's number.
        blocks: The blocks that reach it.
        state: Its map state.
    """
    blocks = sorted(blocks, key=lambda block: block.order)
    window = Window(state, {number: plan.schemas[name] for name, number in plan.numbers.items()})
    run = (Chain if batch.chain else Broadcast)(plan, batch, worker, blocks, window)
    yield from run.output()
    window.compact()
    arrived, dropped = dict.fromkeys(plan.names, 0), dict.fromkeys(plan.names, 0)
    for block in run.own:
        name = plan.names[block.stream]
        arrived[name] += block.rows + block.shed_rows + block.late
        dropped[name] += block.shed_rows
    left, right = (plan.entering(side) for side in (0, 1))
    report = WorkerReport(
        worker=worker,
        tuples=window.size + run.copies,
        offered=window.offered + run.copies,
        messages=run.messages,
        bytes=run.bytes,
        shed=sum(b.shed_rows for b in run.own),
        late=sum(b.late for b in run.own),
        arrived=arrived,
        dropped=dropped,
        clocks=run.clocks,
        partitions=len(plan.keys),
        rests=(window.rows(left), window.rows(right)),
    )
    yield Row(kind=REPORT, task="", worker=worker, content=json.dumps(asdict(report)).encode())
