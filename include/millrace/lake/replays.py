"""What other tuners would have done."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from millrace.lake.newest_rows import RowQuery, read_recent
from millrace.lake.store import Lake
from millrace.model.backtest import BacktestSummary
from millrace.model.codec import to_json

TABLE = "control/replays"


@dataclass(frozen=True)
class ReplayStore:
    """Replays of all pipelines."""

    lake: Lake

    def record(self, summary: BacktestSummary) -> None:
        """Store the result of a replay."""
        row = {**asdict(summary), "options": to_json(summary.options), "figures": to_json(summary.figures)}
        self.lake.append(TABLE, [row])

    def recent(self, pipeline: str, limit: int) -> list[BacktestSummary]:
        """Return the newest replays of a pipeline, newest first."""
        rows = read_recent(self.lake, RowQuery(TABLE, pipeline, limit)).rows.to_pylist()
        return [
            BacktestSummary(
                pipeline=row["pipeline"],
                time=row["time"],
                tuner=row["tuner"],
                options=json.loads(row["options"]),
                sentence=row["sentence"],
                figures=json.loads(row["figures"]),
                run_id=row["run_id"],
            )
            for row in reversed(rows)
        ]
