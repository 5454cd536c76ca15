"""What actually happened to the apps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from millrace.lake.row_codec import reconfiguration_from_row, reconfiguration_row
from millrace.lake.store import Lake, literal
from millrace.model.decision import RESTART, Outcome, Reconfiguration
from millrace.model.deployment import Deployment

TABLE = "control/reconfigurations"
NEWEST_FIRST = """
    coalesce(to_version, from_version, 0) desc, to_version is null desc, coalesce(generation, 0) desc,
    case when outcome in ('failed', 'circuit open') then 1 else 0 end desc, started desc
"""
"""Versions and generations only increase, whatever the clock does. The failure of a driver is its last row."""
MOST_RECENT = 50
PER_APP = 10
"""Newest entries per app in which the last one of each app is looked for."""
BROKEN = {Outcome.FAILED: "driver_failed", Outcome.CIRCUIT_OPEN: "circuit_open"}
"""Outcomes that leave a pipeline without a driver, and the reason code of an evaluation that finds that."""


def newest_of_each_app(history: Iterable[Reconfiguration]) -> list[Reconfiguration]:
    """Return the newest Reconfiguration of each app.

    Args:
        history: Reconfigurations, newest first.
    """
    newest: dict[str, Reconfiguration] = {}
    for change in history:
        newest.setdefault(change.app, change)
    return list(newest.values())


@dataclass(frozen=True)
class ReconfigurationStore:
    """Reconfigurations of all pipelines; a later row with the same start replaces an earlier one.

    Whatever the clock says, a row that has ended is later than an open one, and a row with achieved values is later
    than one without: it is written with the same end once an evaluation has verified the change.
    """

    lake: Lake

    def record(self, change: Reconfiguration) -> None:
        """Store the present state of a reconfiguration."""
        self.lake.append(TABLE, [reconfiguration_row(change)])

    def newest_generation(self, pipeline: str, app: str) -> int:
        """Return the highest generation of an app that was ever recorded; 0 before the first."""
        where = f"pipeline = {literal(pipeline)} and app = {literal(app)}"
        rows = self.lake.rows(f"select max(generation) as newest from reconfigurations where {where}", TABLE)  # noqa: S608 - literal()
        return int(rows[0]["newest"] or 0) if rows else 0

    def recent(
        self, pipeline: str, limit: int = MOST_RECENT, since: datetime | None = None, app: str | None = None
    ) -> list[Reconfiguration]:
        """Return the newest Reconfigurations of a pipeline, newest first, each in its last known state.

        Args:
            pipeline: Name of the pipeline.
            limit: Maximum number.
            since: Only those that started at this time or later (UTC); None for all.
            app: Only those of this app; None for all. Those of the others could crowd them out.
        """
        of_app = "" if app is None else f"and app = {literal(app)}"
        # one text for all callers, except of an app: the lake runs it only if the table has changed
        sql = f"""
            select * from (
                select *, row_number() over (
                    partition by app, started
                    order by ended is not null desc, time desc, achieved <> '{{}}' desc
                ) as age
                from reconfigurations where pipeline = {literal(pipeline)} {of_app}
            ) where age = 1 order by {NEWEST_FIRST} limit {max(limit, MOST_RECENT)}
        """  # noqa: S608 - values pass through literal()
        rows = [row for row in self.lake.rows(sql, TABLE) if since is None or row["started"] >= since]
        return [reconfiguration_from_row(row) for row in rows[:limit]]

    def given_up(self, deployment: Deployment) -> Reconfiguration | None:
        """Return the Reconfiguration that left a pipeline's newest Deployment without a driver; None if none did."""
        return next(iter(self.broken(deployment)), None)

    def broken(self, deployment: Deployment) -> list[Reconfiguration]:
        """Return the Reconfigurations that left apps of a pipeline's newest Deployment without a driver."""
        recent = self.recent(deployment.pipeline, PER_APP * len(deployment.apps))
        return [
            last
            for last in newest_of_each_app(recent)
            if last.tier == RESTART and last.outcome in BROKEN and (last.to_version or 0) >= deployment.version
        ]
