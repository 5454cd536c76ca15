"""Every look that was taken, holds included."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from include.contracts.decision import Action, Decision
from include.contracts.protocols import Cursor
from include.lake.records import decision_from_row, decision_row
from include.lake.store import Lake, literal

TABLE = "control/decisions"
MOST_LOOKS = 100_000
"""More looks than two months of one a minute."""


def new_decision_id(time: datetime, *what: str) -> str:
    """Return an id that sorts by time, for example ``20130101T120000-1f3a9c04``.

    The same look gives the same id, so that a retried task finds the Decision it made before.

    Args:
        time: When the look was taken (UTC).
        what: What tells this Decision from others of the same second: the pipeline, the request.
    """
    digest = hashlib.sha256("\0".join([time.isoformat(), *what]).encode()).hexdigest()
    return f"{time:%Y%m%dT%H%M%S}-{digest[:8]}"


def veto_id(decision: Decision) -> str:
    """Return the id of the veto that ends a Decision which waited or could no longer be applied: at most one."""
    return new_decision_id(decision.time, decision.pipeline, "refused", decision.decision_id)


@dataclass(frozen=True)
class DecisionStore:
    """Decisions of all pipelines in ``control/decisions``."""

    lake: Lake

    def record(self, decision: Decision) -> bool:
        """Store a Decision once; return False if it had been stored before (a retried task)."""
        done = self.lake.append(TABLE, [decision_row(decision)], {f"decision/{decision.decision_id}": 1})
        return done is not None

    def get(self, decision_id: str) -> Decision | None:
        """Return one Decision."""
        found = self._select(f"decision_id = {literal(decision_id)}", 1)
        return found[0] if found else None

    def last(self, pipeline: str) -> Decision | None:
        """Return a pipeline's newest Decision."""
        found = self.recent(pipeline, 1)
        return found[0] if found else None

    def cursor(self, pipeline: str) -> Cursor:
        """Return where a pipeline's last look stopped reading."""
        looks = self._select(f"pipeline = {literal(pipeline)} and cursor_version is not null", 1)
        if not looks or looks[0].cursor_version is None:
            return Cursor()
        return Cursor(looks[0].cursor_version, looks[0].cursor_until)

    def awaiting(self, pipeline: str, since: datetime) -> list[Decision]:
        """Return a pipeline's Decisions since a time that were put before a person, newest first."""
        where = f"pipeline = {literal(pipeline)} and action = {literal(Action.AWAIT.value)} and time > {literal(since)}"
        return self._select(where, 100)

    def looks(self, pipeline: str, since: datetime | None, until: datetime) -> list[Decision]:
        """Return the looks of a pipeline that measured something, oldest first.

        A dry run is none: the look after it starts where it did.

        Args:
            pipeline: Name of the pipeline.
            since: Earliest time of a look (UTC), itself included; None for no limit.
            until: Latest time of a look (UTC), itself included.
        """
        where = f"pipeline = {literal(pipeline)} and cursor_version is not null and time <= {literal(until)}"
        if since is not None:
            where += f" and time >= {literal(since)} and date >= cast({literal(f'{since:%Y-%m-%d}')} as date)"
        found = self._select(f"{where} and signals is not null", MOST_LOOKS)
        return [d for d in reversed(found) if d.signals and d.signals.telemetry_version == d.cursor_version]

    def last_look(self, pipeline: str, until: datetime) -> Decision | None:
        """Return the newest look of a pipeline up to a time (UTC) that measured something."""
        where = f"pipeline = {literal(pipeline)} and signals is not null and time <= {literal(until)}"
        return next(iter(self._select(f"{where} and cursor_version is not null", 1)), None)

    def recent(self, pipeline: str | None = None, limit: int = 50) -> list[Decision]:
        """Return the newest Decisions, newest first, of one pipeline or of all."""
        return self._select("true" if pipeline is None else f"pipeline = {literal(pipeline)}", limit)

    def _select(self, where: str, limit: int) -> list[Decision]:
        sql = f"select * from decisions where {where} order by time desc limit {int(limit)}"  # noqa: S608 - values pass through literal()
        return [decision_from_row(row) for row in self.lake.rows(sql, TABLE)]
