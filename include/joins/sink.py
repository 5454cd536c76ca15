"""The end of each micro-batch: results into their tables, hand-overs and terms for the next batch, figures for a look.

Everything here may happen twice, where a driver dies before Spark has noted that the batch is done: results and figures
know their batch and are skipped, hand-overs and terms are written anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from include.joins.blocks import HandOver, unpack
from include.joins.placing import moved, moves
from include.joins.plan import Plan, output_schema
from include.joins.terms import Terms, TermsFolder
from include.joins.worker import HANDED, PAIRS, REPORT, Report
from include.lake.source import SourceTable
from include.model.codec import from_json, to_json
from include.model.join import JoinSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Tell = Callable[[str, Terms, Sequence[Report]], None]


class Sink:
    """What Spark calls with the output of each batch.

    Args:
        plan: The join.
        wanted: Says how the join is to be set from the next batch on.
        tell: Takes the query's id, a batch's terms and what its workers did.
    """

    def __init__(self, plan: Plan, wanted: Callable[[], JoinSettings], tell: Tell) -> None:
        self._plan, self._wanted, self._tell = plan, wanted, tell
        self._folder = TermsFolder(plan.folder)
        self._results = {task.name: self._table(task.name) for task in plan.definition.tasks}

    def __call__(self, output: DataFrame, batch_id: int) -> None:
        """Finish a batch."""
        told = output.toArrow().to_pylist()
        terms = self._folder.read(batch_id)
        query = _query_id(Path(self._plan.definition.checkpoint))
        for task, (schema, table) in self._results.items():
            found = [unpack(row["content"], schema) for row in told if (row["kind"], row["task"]) == (PAIRS, task)]
            if found:
                table.refresh()  # a driver that took over opened it while its predecessor still wrote
                table.append(pa.concat_tables(found).combine_chunks(), 1, f"join/{query}", batch_id)
        reports = [from_json(Report, row["content"].decode()) for row in told if row["kind"] == REPORT]
        handed = [(row["worker"], HandOver.read(row["content"])) for row in told if row["kind"] == HANDED]
        self._folder.write(self._next(terms, reports, handed))
        self._tell(query, terms, sorted(reports, key=lambda report: report.worker))

    def _next(self, terms: Terms, reports: Sequence[Report], handed: Sequence[tuple[int, HandOver]]) -> Terms:
        settings = self._plan.bounded(self._wanted())
        sizes, clocks = [0] * len(self._plan.keys), dict(terms.clocks)
        for report in reports:
            sizes[report.worker] = report.tuples
            clocks.update(report.clocks)
        for target, over in handed:  # kept by nobody now, and by the target from the next batch on
            sizes[target] += over.tuples
            self._folder.hand(terms.batch_id + 1, target, over.source, over.content)
        made = moves(sizes, settings.workers, settings.block)
        pairs = tuple(sorted((target, over.source) for target, over in handed))
        return Terms(terms.batch_id + 1, settings, clocks, moved(sizes, made), made, pairs)

    def _table(self, name: str) -> tuple[pa.Schema, SourceTable]:
        task = next(task for task in self._plan.definition.tasks if task.name == name)
        schema = output_schema(self._plan, task)
        folder = Path(self._plan.definition.results) / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        return schema, SourceTable(folder, schema, f"matches of {to_json(task)}")


def _query_id(checkpoint: Path) -> str:
    return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])
