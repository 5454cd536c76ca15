"""Alerts that people received."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from millrace.lake.store import Lake, literal
from millrace.model.alert import Alert, AlertKind

TABLE = "control/alerts"


@dataclass(frozen=True)
class AlertStore:
    """Alerts of all pipelines."""

    lake: Lake

    def record(self, alerts: Sequence[Alert]) -> None:
        """Store the alerts that a person received; write nothing if there are none."""
        if alerts:
            self.lake.append(TABLE, [{**asdict(alert), "kind": alert.kind.value} for alert in alerts])

    def since(self, pipeline: str, since: datetime) -> list[Alert]:
        """Return the alerts about a pipeline, newest first.

        Args:
            pipeline: The pipeline.
            since: Earlier alerts are left out.
        """
        sql = f"""
            select * from alerts where pipeline = {literal(pipeline)} and time >= {literal(since)} order by time desc
        """  # noqa: S608 - values pass through literal()
        return [
            Alert(row["pipeline"], row["time"], AlertKind(row["kind"]), row["subject"], row["sentence"])
            for row in self.lake.rows(sql, TABLE)
        ]
