"""A join's two links to the lake: read settings from the newest Deployment, write the figures of each batch."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from millrace.joins.batch_plan import BatchPlan
from millrace.joins.worker import WorkerReport
from millrace.lake.deployments import DeploymentFollower
from millrace.lake.fenced_table import Fenced, FencedTable
from millrace.lake.store import Lake
from millrace.model.errors import Conflict, MillraceError
from millrace.model.join import JoinSettings

LOG = logging.getLogger(__name__)
WORKERS, STREAMS = "telemetry/workers", "telemetry/streams"
MOST_ROWS = 100_000
"""Rows to keep while the lake cannot be written. Beyond that, the oldest rows are dropped."""


class DeployedSettings:
    """Follow a pipeline's Deployments; keep the last settings if there is none or the lake cannot be read.

    Args:
        lake: Lake with the Deployments.
        pipeline: Name of the pipeline.
        first: Settings to use until a Deployment has been read.
    """

    def __init__(self, lake: Lake, pipeline: str, first: JoinSettings) -> None:
        self._followed, self._last = DeploymentFollower(lake, pipeline), first

    def __call__(self) -> JoinSettings:
        """Return the settings."""
        try:
            newest = self._followed.read()
        except MillraceError as error:
            LOG.warning("The join keeps its settings: %s", error)
            return self._last
        if newest is not None and newest.join is not None:
            self._last = newest.join
        return self._last


class JoinTelemetry:
    """Write the reports of each batch, one row per worker and one per stream; a failed write never stops the stream.

    Args:
        lake: Lake to write to.
        pipeline: Name of the pipeline.
        app: Name of the app.
        generation: Start number of the driver, >= 1.
        capacity: W.
    """

    def __init__(self, lake: Lake, pipeline: str, app: str, generation: int, capacity: int) -> None:
        self._app = {"pipeline": pipeline, "app": app}
        self._series = f"{pipeline}/{app}/join"
        self._generation, self._capacity = generation, capacity
        fence = f"{self._series}/generation"
        self._tables = {name: FencedTable(lake, name, fence, generation) for name in (WORKERS, STREAMS)}
        self._waiting: dict[str, list[tuple[int, dict[str, Any]]]] = {WORKERS: [], STREAMS: []}

    def __call__(self, query: str, batch: BatchPlan, reports: Sequence[WorkerReport]) -> None:
        """Write the reports of a batch, and any rows that could not be written before."""
        if not reports:
            return
        known = {**self._app, "time": datetime.now(UTC)}
        settings = {
            "generation": self._generation,
            "batch_id": batch.batch_id,
            "capacity": self._capacity,
            "workers": batch.settings.workers,
            "block": batch.settings.block,
            "shed_ratio": batch.settings.shed,
        }
        for report in reports:
            figures = {
                "worker": report.worker,
                "window_tuples": report.tuples,
                "offered": report.offered,
                "messages": report.messages,
                "bytes": report.bytes,
                "shed": report.shed,
                "late": report.late,
                "partitions": report.partitions,
            }
            self._waiting[WORKERS].append((batch.batch_id, {**known, **settings, **figures}))
        for stream in reports[0].arrived:
            rows, shed = sum(r.arrived[stream] for r in reports), sum(r.dropped[stream] for r in reports)
            row = {**known, "stream": stream, "rows": rows, "shed_rows": shed}
            self._waiting[STREAMS].append((batch.batch_id, row))
        for name in self._tables:
            self._write(name, f"{self._series}/{query}")

    def _write(self, name: str, series: str) -> None:
        table, waiting = self._tables[name], self._waiting[name]
        try:
            reached = table.committed([series]).get(series, -1)  # the rows of a repeated batch are already there
            rows = [row for batch_id, row in waiting if batch_id > reached]
            if rows:
                table.append(rows, {series: max(batch_id for batch_id, _ in waiting)})
            waiting.clear()
        except Fenced as outcome:
            waiting.clear()
            LOG.warning("Discarding figures of an outdated driver: %s", outcome)
        except (Conflict, MillraceError) as error:
            del waiting[:-MOST_ROWS]
            LOG.warning("%s cannot be written yet; the join continues: %s", name, error)
