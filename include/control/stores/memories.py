"""What each optimizer keeps between looks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from include.contracts.codec import to_json
from include.contracts.decision import Memory
from include.lake.store import Lake, literal

TABLE = "control/memory"


@dataclass(frozen=True)
class MemoryStore:
    """Memories of all pipelines' optimizers in ``control/memory``."""

    lake: Lake

    def latest(self, pipeline: str, optimizer: str, besides: str = "", before: datetime | None = None) -> Memory:
        """Return an optimizer's memory after the last look; empty before the first.

        Args:
            pipeline: Name of the pipeline.
            optimizer: Registry name of the optimizer.
            besides: A Decision whose memory does not count: the one that a retried task is making again.
            before: Only memories of Decisions made before this time (UTC) count; None for all.
        """
        where = (
            f"pipeline = {literal(pipeline)} and optimizer = {literal(optimizer)} and decision_id <> {literal(besides)}"
        )
        if before is not None:
            where += f" and time < {literal(before)}"
        sql = f"select value from memory where {where} order by time desc limit 1"  # noqa: S608 - literals
        rows = self.lake.rows(sql, TABLE)
        return json.loads(rows[0]["value"]) if rows else {}

    def record(self, pipeline: str, optimizer: str, decision_id: str, time: datetime, value: Memory) -> None:
        """Store an optimizer's memory once a decision."""
        row = {
            "pipeline": pipeline,
            "time": time,
            "optimizer": optimizer,
            "decision_id": decision_id,
            "value": to_json(value),
        }
        self.lake.append(TABLE, [row], {f"memory/{optimizer}/{decision_id}": 1})
