"""What a join's workers did, into the lake: one row a worker and one a stream for each micro-batch, each once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from include.joins.terms import Terms
from include.joins.worker import Report
from include.lake.fenced import Fenced, FencedTable
from include.lake.store import Lake
from include.model.errors import Conflict, MillraceError

LOG = logging.getLogger(__name__)
WORKERS, STREAMS = "telemetry/workers", "telemetry/streams"
MOST_ROWS = 100_000
"""Rows kept while the lake cannot be written; then the oldest go."""


class JoinTelemetry:
    """Takes the reports of each batch; a lake that cannot be written never holds the stream up.

    Args:
        lake: Where.
        pipeline: Whose.
        app: Name of the app.
        generation: Start number of the driver, >= 1.
        capacity: W.
    """

    def __init__(self, lake: Lake, pipeline: str, app: str, generation: int, capacity: int) -> None:
        self._known = {"pipeline": pipeline, "app": app}
        self._generation, self._capacity = generation, capacity
        fence = f"{pipeline}/{app}/join/generation"
        self._tables = {name: FencedTable(lake, name, fence, generation) for name in (WORKERS, STREAMS)}
        self._waiting: dict[str, list[tuple[int, dict[str, Any]]]] = {WORKERS: [], STREAMS: []}

    def __call__(self, query: str, terms: Terms, reports: Sequence[Report]) -> None:
        """Write what a batch's workers told, and what could not be written before."""
        if not reports:
            return
        now = datetime.now(UTC)
        settings = terms.settings
        for report in reports:
            row = {
                **self._known,
                "time": now,
                "generation": self._generation,
                "batch_id": terms.batch_id,
                "worker": report.worker,
                "window_tuples": report.tuples,
                "capacity": self._capacity,
                "offered": report.offered,
                "messages": report.messages,
                "bytes": report.bytes,
                "shed": report.shed,
                "late": report.late,
                "workers": settings.workers,
                "block": settings.block,
                "shed_ratio": settings.shed,
            }
            self._waiting[WORKERS].append((terms.batch_id, row))
        for stream, rows in reports[0].arrived.items():
            row = {**self._known, "time": now, "stream": stream, "rows": rows}
            self._waiting[STREAMS].append((terms.batch_id, {**row, "shed_rows": reports[0].dropped[stream]}))
        for name in self._tables:
            self._write(name, f"{self._known['pipeline']}/{self._known['app']}/join/{query}")

    def _write(self, name: str, series: str) -> None:
        table = self._tables[name]
        try:
            reached = table.committed([series]).get(series, -1)  # a batch that Spark repeats is there already
            rows = [row for batch_id, row in self._waiting[name] if batch_id > reached]
            if rows:
                table.append(rows, {series: max(batch_id for batch_id, _ in self._waiting[name])})
            self._waiting[name].clear()
        except Fenced as outcome:
            self._waiting[name].clear()
            LOG.warning("Figures of a stale driver are discarded: %s", outcome)
        except (Conflict, MillraceError) as error:
            del self._waiting[name][:-MOST_ROWS]
            LOG.warning("%s waits, the join goes on: %s", name, error)
