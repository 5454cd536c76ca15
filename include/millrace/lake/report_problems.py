"""Why MLflow does not get what it should. No decision stops for this; a person has to see it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from millrace.lake.store import Lake, literal

TABLE = "control/report_problems"


@dataclass(frozen=True)
class ReportProblem:
    """Why reporting fails.

    Attributes:
        time: Since when (UTC).
        problem: The error.
    """

    time: datetime
    problem: str


@dataclass(frozen=True)
class ReportProblemStore:
    """Since when, and why, each pipeline's changes do not reach MLflow."""

    lake: Lake

    def note(self, pipeline: str, problem: str | None, now: datetime) -> None:
        """Store whether a report failed: one row when a problem starts, changes or ends.

        Args:
            pipeline: Name of the pipeline.
            problem: Why its report failed; None if it did not.
            now: Current time (UTC).
        """
        known = self.current(pipeline)
        if problem != (known and known.problem):
            self.lake.append(TABLE, [{"pipeline": pipeline, "time": now, "problem": problem}])

    def current(self, pipeline: str) -> ReportProblem | None:
        """Return why the newest report failed; None if it did not."""
        sql = f"""
            select time, problem from report_problems where pipeline = {literal(pipeline)} order by time desc limit 1
        """  # noqa: S608 - values pass through literal()
        rows = self.lake.rows(sql, TABLE)
        if not rows or rows[0]["problem"] is None:
            return None
        return ReportProblem(rows[0]["time"], rows[0]["problem"])
