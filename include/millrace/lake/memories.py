"""What each optimizer keeps between evaluations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

from millrace.lake.newest_rows import RowQuery, read_recent
from millrace.lake.store import Lake, Position
from millrace.model.codec import to_json
from millrace.model.decision import Memory

TABLE = "control/memory"
NEVER = -1
"""Version of the table before its first."""


@dataclass(frozen=True)
class MemoryStore:
    """Memories of all pipelines' optimizers in ``control/memory``."""

    lake: Lake
    _found: dict[tuple[str, str], tuple[Position, Mapping[str, Any] | None]] = field(
        default_factory=dict, compare=False
    )

    def latest(self, pipeline: str, optimizer: str, besides: str = "", before: datetime | None = None) -> Memory:
        """Return an optimizer's memory after the last evaluation; empty before the first.

        Args:
            pipeline: Name of the pipeline.
            optimizer: Registry name of the optimizer.
            besides: Id of a Decision whose memory does not count: a retried task is making it again.
            before: Only memories of Decisions made before this time (UTC) count; None for all.
        """
        if before is None:
            newest = self._newest(pipeline, optimizer)
            if newest is None or newest["decision_id"] != besides:
                return json.loads(newest["value"]) if newest else {}
        where = pc.field("decision_id") != besides
        if before is not None:
            where &= pc.field("time") < before
        query = RowQuery(TABLE, pipeline, 1, equal={"optimizer": optimizer}, where=where)
        rows = read_recent(self.lake, query).rows
        return json.loads(rows["value"][0].as_py()) if len(rows) else {}

    def _newest(self, pipeline: str, optimizer: str) -> Mapping[str, Any] | None:
        """Return the newest row of an optimizer; only what was committed since the last call is searched for it."""
        position = self.lake.position(TABLE)
        (restarts, seen), row = self._found.get((pipeline, optimizer), ((position[0], NEVER), None))
        if restarts != position[0]:  # the table may have been recreated
            seen, row = NEVER, None
        query = RowQuery(TABLE, pipeline, 1, after=seen, equal={"optimizer": optimizer})
        found = read_recent(self.lake, query)
        if not found.whole and not len(found.rows):
            found = read_recent(self.lake, replace(query, after=NEVER))
        row = next(iter(found.rows.to_pylist()), row)
        self._found[pipeline, optimizer] = position, row
        return row

    def record(self, pipeline: str, optimizer: str, decision_id: str, time: datetime, value: Memory) -> None:
        """Store an optimizer's memory once per Decision."""
        row = {
            "pipeline": pipeline,
            "time": time,
            "optimizer": optimizer,
            "decision_id": decision_id,
            "value": to_json(value),
        }
        self.lake.append(TABLE, [row], {f"memory/{optimizer}/{decision_id}": 1})
