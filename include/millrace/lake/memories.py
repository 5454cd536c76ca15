"""What each optimizer keeps between evaluations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

import pyarrow.compute as pc

from millrace.lake.newest_rows import RowQuery, read_recent
from millrace.lake.store import Lake
from millrace.model.codec import to_json
from millrace.model.decision import Memory

TABLE = "control/memory"


@dataclass(frozen=True)
class MemoryStore:
    """Memories of all pipelines' optimizers in ``control/memory``."""

    lake: Lake

    def latest(self, pipeline: str, optimizer: str, besides: str = "", before: datetime | None = None) -> Memory:
        """Return an optimizer's memory after the last evaluation; empty before the first.

        Args:
            pipeline: Name of the pipeline.
            optimizer: Registry name of the optimizer.
            besides: Id of a Decision whose memory does not count: a retried task is making it again.
            before: Only memories of Decisions made before this time (UTC) count; None for all.
        """
        where = pc.field("decision_id") != besides
        if before is not None:
            where &= pc.field("time") < before
        query = RowQuery(TABLE, pipeline, 1, equal={"optimizer": optimizer}, where=where)
        newest = read_recent(self.lake, query).rows
        return json.loads(newest["value"][0].as_py()) if len(newest) else {}

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
