"""The live join without Spark: its router, workers and sink, with the workers' state in memory."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from millrace.joins.batch_plan import BatchPlan, BatchPlans
from millrace.joins.blocks import Block, unpack
from millrace.joins.join_plan import JoinPlan
from millrace.joins.router import cut, deliveries
from millrace.joins.sink import Listener, Sink
from millrace.joins.worker import process
from millrace.model.join import JoinSettings

OUTPUT = pa.schema([("kind", pa.string()), ("task", pa.string()), ("worker", pa.int32()), ("content", pa.binary())])


class State(dict[Any, Any]):
    """A map state."""

    def iterator(self) -> Iterator[Any]:
        """Return all entries."""
        return iter(list(self.items()))

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802 - Spark's name
        """Set an entry."""
        self[key] = value

    def removeKey(self, key: Any) -> None:  # noqa: N802 - Spark's name
        """Remove an entry."""
        del self[key]


@dataclass
class Output:
    """Spark passes this to the sink."""

    rows: list[dict[str, Any]]

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        """Return the rows as Arrow."""
        return pa.Table.from_pylist(self.rows, schema=OUTPUT)


class LocalJoin:
    """A join that runs one micro-batch per call.

    Args:
        plan: The join; its checkpoint is an empty folder.
        settings: Returns the settings wanted from the next batch on.
        listener: Called with the reports of a batch's workers.
        collect: Whether to collect pairs here instead of writing them to the results tables.

    Attributes:
        pairs: Collected pairs (id of the left, id of the right), by task.
    """

    def __init__(
        self,
        plan: JoinPlan,
        settings: Callable[[], JoinSettings],
        listener: Listener = lambda *each: None,
        *,
        collect: bool = False,
    ) -> None:
        (Path(plan.definition.checkpoint) / "metadata").write_text(json.dumps({"id": "q"}))
        first = plan.bounded(settings())
        BatchPlans(plan.folder).begin(BatchPlan(0, first, chain=first.workers if plan.sides else 0))
        self.plan, self.batch_id = plan, 0
        self._states = {key: State() for key in plan.keys}
        self._sink = Sink(plan, settings, listener)
        self.pairs: dict[str, Counter[tuple[int, int]]] = defaultdict(Counter)
        self._schemas = {task.name: plan.result_schema(task) for task in plan.definition.tasks if collect}

    @property
    def next_plan(self) -> BatchPlan:
        """The plan of the next batch."""
        return BatchPlans(self.plan.folder).read(self.batch_id)

    def run(self, rows: Mapping[str, pa.Table], *, crashes: int = 0) -> None:
        """Run a batch.

        Args:
            rows: The rows of each stream, with their hashes; none for a batch that Spark runs without rows.
            crashes: How often the driver dies before Spark commits the batch, and the batch is repeated.
        """
        before = {key: State(state) for key, state in self._states.items()}
        for _ in range(crashes + 1):
            self._states = {key: State(state) for key, state in before.items()}
            output = [row.asDict() for row in self._work(rows)]
            pairs = [row for row in output if row["task"] in self._schemas]
            rest = [row for row in output if row["task"] not in self._schemas]
            self._sink(Output(rest), self.batch_id)
        for row in pairs:
            found = unpack(row["content"], self._schemas[row["task"]])
            ids = (found[name].to_pylist() for name in ("left_id", "right_id"))
            self.pairs[row["task"]].update(zip(*ids, strict=True))
        self.batch_id += 1

    def _work(self, rows: Mapping[str, pa.Table]) -> Iterator[Any]:
        batch = self.next_plan
        reached: dict[int, list[Block]] = {}
        for stream, of_stream in rows.items():
            blocks = cut(self.plan, stream, of_stream, batch, 0, 0)
            for delivery in deliveries(self.plan, stream, batch, blocks):
                for row in delivery.to_pylist():
                    key = row.pop("key")
                    reached.setdefault(key, []).append(Block(**row))
        for key, blocks in reached.items():
            yield from process(self.plan, batch, self.plan.keys.index(key), blocks, self._states[key])
