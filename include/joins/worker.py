"""A worker of a join: keeps its part of the window in Spark's state, and joins it with every new block.

Each pair meets once: a new tuple meets older ones where these are kept, and one of the same batch where the left of the
two is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import compress
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from include.joins.blocks import (
    NEVER,
    Block,
    HandOver,
    Kept,
    pack,
    pack_kept,
    unpack,
    unpack_kept,
    unpack_times,
)
from include.joins.matching import TIME, pairs
from include.joins.placing import place
from include.joins.plan import Plan, output_schema, shown
from include.joins.router import batch_of
from include.joins.terms import Terms, TermsFolder
from include.joins.window import KEY, VALUE, Window, merged
from include.model.join import JoinTask

OUTPUT = "kind string, task string, worker int, content binary"
"""Spark schema of what workers tell: pairs of a task, tuples handed to a worker, and each worker's report."""
PAIRS, HANDED, REPORT = "pairs", "handed", "report"


@dataclass(frozen=True)
class Report:
    """What a worker did in a batch.

    Attributes:
        worker: Its number.
        tuples: Tuples that it keeps after the batch.
        offered: Tuples that it would keep had nothing been shed.
        messages: Blocks that it received.
        bytes: Their size.
        shed: Tuples that were shed of the blocks that it keeps.
        late: Late tuples that came with those.
        arrived: Tuples that came in the batch, by stream, what was shed or late included: the same at every worker.
        dropped: Tuples that were shed, by stream.
        clocks: Newest event time by stream.
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


class JoinWorker(StatefulProcessor):  # type: ignore[misc]
    """What Spark runs for each worker that a batch reaches.

    Args:
        plan: The join.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._schemas = {number: plan.schemas[name] for name, number in plan.numbers.items()}

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._state = handle.getMapState("window", KEY, VALUE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Join the blocks of a batch, and keep those that are to be kept here."""
        terms = TermsFolder(self._plan.folder).read(batch_of(TaskContext.get()))
        worker = self._plan.keys.index(key[0])
        blocks = sorted((Block(*row[1:]) for row in rows), key=lambda block: block.order)
        mine = [home == worker for home in place(blocks, terms)]
        window = Window(self._state, self._schemas)
        self._receive(window, worker, terms)
        sets = [(block.stream, self._kept(block)) for block in blocks]
        new, kept = self._by_stream(sets), self._by_stream(list(compress(sets, mine)))
        for task in self._plan.definition.tasks:
            left, right = self._plan.numbers[task.left], self._plan.numbers[task.right]
            older = window.tuples(right)
            yield from self._pairs(task, pa.concat_tables([window.tuples(left), kept[left].tuples]), new[right].tuples)
            yield from self._pairs(task, new[left].tuples, older)
        for stream, tuples in kept.items():
            window.add(stream, 2 * terms.batch_id, tuples)
        clocks = self._clocks(terms, blocks)
        oldest = self._plan.expires(clocks)
        window.expire({number: oldest[name] for name, number in self._plan.numbers.items()})
        for move in terms.moves:
            if move.source == worker:
                taken = window.take(move.tuples, 2 * terms.batch_id)
                over = HandOver(worker, sum(k.tuples.num_rows for k in taken.values()), pack_kept(taken))
                yield Row(kind=HANDED, task="", worker=move.target, content=over.write())
        window.compact()
        report = self._report(worker, window, blocks, mine, clocks)
        yield Row(kind=REPORT, task="", worker=worker, content=json.dumps(asdict(report)).encode())

    def close(self) -> None:
        """Nothing is open beside Spark's state."""

    def _receive(self, window: Window, worker: int, terms: Terms) -> None:
        folder, given = TermsFolder(self._plan.folder), []
        for target, source in terms.handed:
            if target == worker:
                given.append(unpack_kept(folder.handed(terms.batch_id, target, source), self._schemas))
        for stream in {stream for kept in given for stream in kept}:
            # the number between those of the last batch's sets and of this one's: known to who planned the moves
            window.add(stream, 2 * terms.batch_id - 1, merged([kept[stream] for kept in given if stream in kept]))

    def _kept(self, block: Block) -> Kept:
        return Kept(unpack(block.tuples, self._schemas[block.stream]), unpack_times(block.shed))

    def _by_stream(self, sets: Sequence[tuple[int, Kept]]) -> dict[int, Kept]:
        none = {number: Kept(schema.empty_table(), unpack_times(b"")) for number, schema in self._schemas.items()}
        return {number: merged([none[number], *(kept for of, kept in sets if of == number)]) for number in none}

    def _pairs(self, task: JoinTask, left: pa.Table, right: pa.Table) -> Iterator[Row]:
        schema = output_schema(self._plan, task)
        for rows_left, rows_right in pairs(task, left, right):
            columns = [
                column
                for stream, tuples, rows in ((task.left, left, rows_left), (task.right, right, rows_right))
                for column in self._shown(stream, tuples.take(pa.array(rows)))
            ]
            made = pa.Table.from_arrays(columns, schema=schema)
            yield Row(kind=PAIRS, task=task.name, worker=0, content=pack(made))

    def _shown(self, stream: str, tuples: pa.Table) -> list[pa.ChunkedArray]:
        names = shown(self._plan, stream)
        return [tuples[TIME].cast(kind) if name == "time" else tuples[name] for name, kind in names]

    def _clocks(self, terms: Terms, blocks: Sequence[Block]) -> dict[str, int]:
        clocks = dict(terms.clocks)
        for block in blocks:
            if block.newest != NEVER:
                name = self._plan.names[block.stream]
                clocks[name] = max(clocks.get(name, NEVER), block.newest)
        return clocks

    def _report(
        self, worker: int, window: Window, blocks: Sequence[Block], mine: Sequence[bool], clocks: Mapping[str, int]
    ) -> Report:
        own = list(compress(blocks, mine))
        names = self._plan.names
        of = {name: [b for b in blocks if names[b.stream] == name] for name in names}
        return Report(
            worker=worker,
            tuples=window.size,
            offered=window.offered,
            messages=len(blocks),
            bytes=sum(len(b.tuples) + len(b.shed) for b in blocks),
            shed=sum(b.shed_rows for b in own),
            late=sum(b.late for b in own),
            arrived={name: sum(b.rows + b.shed_rows + b.late for b in found) for name, found in of.items()},
            dropped={name: sum(b.shed_rows for b in found) for name, found in of.items()},
            clocks=clocks,
        )
