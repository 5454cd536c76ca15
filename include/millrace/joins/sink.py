"""The end of each micro-batch: write results, hand-overs, the next batch's plan, and figures for the lake.

Everything here may happen twice, if a driver dies before Spark has recorded that the batch is done. Results and figures
know their batch and are skipped the second time. Hand-overs and plan are written again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from millrace.joins.batch_plan import BatchPlan, BatchPlans, level, sizes_after, sizes_before
from millrace.joins.blocks import HandOver, unpack
from millrace.joins.join_plan import JoinPlan
from millrace.joins.results import HANDED, PAIRS, REPORT
from millrace.joins.worker import WorkerReport
from millrace.lake.source_tables import SourceTable
from millrace.model.codec import from_json, to_json
from millrace.model.join import JoinSettings, JoinTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Listener = Callable[[str, BatchPlan, Sequence[WorkerReport]], None]
"""Called with the query's id, a batch's plan and each worker's report."""


class Sink:
    """Finish each micro-batch; Spark calls this with the batch's output.

    Args:
        plan: The join.
        settings: Returns the settings wanted from the next batch on.
        listener: Called with the reports of a batch's workers.
    """

    def __init__(self, plan: JoinPlan, settings: Callable[[], JoinSettings], listener: Listener) -> None:
        self._plan, self._settings, self._listener = plan, settings, listener
        self._plans = BatchPlans(plan.folder)
        self._results = {task.name: self._table(task) for task in plan.definition.tasks}

    def __call__(self, output: DataFrame, batch_id: int) -> None:
        """Finish a batch."""
        rows = output.toArrow().to_pylist()
        batch = self._plans.read(batch_id)
        query = _query_id(Path(self._plan.definition.checkpoint))
        for task, (schema, table) in self._results.items():
            pairs = [unpack(row["content"], schema) for row in rows if (row["kind"], row["task"]) == (PAIRS, task)]
            if pairs:
                table.refresh()  # a driver that takes over may have opened it while its predecessor was still writing
                table.append(pa.concat_tables(pairs).combine_chunks(), 1, f"join/{query}", batch_id)
        reports = [from_json(WorkerReport, row["content"].decode()) for row in rows if row["kind"] == REPORT]
        hand_overs = [(row["worker"], HandOver.read(row["content"])) for row in rows if row["kind"] == HANDED]
        self._plans.write(self._next(batch, reports, hand_overs))
        self._listener(query, batch, sorted(reports, key=lambda report: report.worker))

    def _next(
        self, batch: BatchPlan, reports: Sequence[WorkerReport], hand_overs: Sequence[tuple[int, HandOver]]
    ) -> BatchPlan:
        settings = self._plan.bounded(self._settings())
        clocks, reported = dict(batch.clocks), {report.worker for report in reports}
        for report in reports:
            clocks.update({name: max(at, clocks.get(name, at)) for name, at in report.clocks.items()})
        handed = [(target, over.source) for target, over in hand_overs]
        for target, source in batch.handed:
            if target not in reported:  # not acknowledged
                self._plans.hand_again(batch.batch_id, target, source)
                handed.append((target, source))
        after = BatchPlan(batch.batch_id + 1, settings, clocks, handed=tuple(sorted(handed)))
        return (_chained if batch.chain else _levelled)(after, batch, reports, hand_overs, len(self._plan.keys))

    def _table(self, task: JoinTask) -> tuple[pa.Schema, SourceTable]:
        schema = self._plan.result_schema(task)
        folder = Path(self._plan.definition.results) / task.name
        folder.parent.mkdir(parents=True, exist_ok=True)
        return schema, SourceTable(folder, schema, f"matches of {to_json(task)}")


def _levelled(
    after: BatchPlan,
    batch: BatchPlan,
    reports: Sequence[WorkerReport],
    hand_overs: Sequence[tuple[int, HandOver]],
    most: int,
) -> BatchPlan:
    """Return the plan of the next batch with the moves that level the workers."""
    # Spark calls no worker in a batch without rows, for example after OPTIMIZE of a source: each keeps its tuples
    sizes = sizes_before(batch.sizes, batch.moves, most)
    for report in reports:
        sizes[report.worker] = report.tuples
    for target, over in hand_overs:  # no worker keeps these now; the target will from the next batch on
        sizes[target] += over.left
    moves = level(sizes, after.settings.workers, after.settings.block)
    return replace(after, sizes=sizes_after(sizes, moves), moves=moves)


def _chained(
    after: BatchPlan,
    batch: BatchPlan,
    reports: Sequence[WorkerReport],
    hand_overs: Sequence[tuple[int, HandOver]],
    most: int,
) -> BatchPlan:
    """Return the plan of the next batch with the workers of the chain and what rests at each."""
    rests = [*batch.rests, *[(0, 0)] * (most - len(batch.rests))]
    for report in reports:
        rests[report.worker] = report.rests
    for target, over in hand_overs:
        rests[target] = (rests[target][0] + over.left, rests[target][1] + over.right)
    left = 1 if reports and batch.leaving is not None else 0
    chain = max(batch.chain - left, after.settings.workers)
    return replace(after, chain=chain, rests=tuple(rests[:chain]))


def _query_id(checkpoint: Path) -> str:
    return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])
