"""Current figures of the pipeline, for the live view."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from millrace.lake.backlog import DeltaSource
from millrace.lake.control_tables import ControlTables
from millrace.lake.reconfigurations import newest_of_each_app
from millrace.lake.store import literal
from millrace.local.demo.timeline import sustainable
from millrace.model.decision import Decision, Outcome, Reconfiguration
from millrace.model.spec import PipelineSpec
from millrace.run_folder import driver_records
from millrace.run_folder.driver_records import DriverRecord, DriverState

RATE_WINDOW_S = 5.0


@dataclass(frozen=True)
class LiveStats:
    """A pipeline's figures at one time.

    Attributes:
        event_rows_per_s: Rows per second that arrived over the last RATE_WINDOW_S.
        arrived: Rows that have arrived.
        processed: Rows processed by the last app, as far as telemetry has been committed.
        slots: Slots of the drivers in use; None if there is none.
        starting: Slots of drivers that are being started; None if there is none.
        sustainable_rows_per_s: Sustainable throughput of these slots from their newest evaluation; None before.
        circuit_open: Why the pipeline is no longer started; None while it is.
        changing: Whether the last reconfiguration is still in progress.
        by_app: Slots in use of each app.
    """

    event_rows_per_s: float
    arrived: int
    processed: int
    slots: int | None
    starting: int | None
    sustainable_rows_per_s: float | None
    circuit_open: str | None
    changing: bool = False
    by_app: Mapping[str, int] = field(default_factory=dict)

    @property
    def backlog(self) -> int:
        """Rows that wait, including those of a running batch."""
        return max(0, self.arrived - self.processed)


class LiveStatsReader:
    """Read a pipeline's live figures and its new Decisions.

    Args:
        spec: The pipeline.
        tables: Its control tables.
        run_dir: Folder of its drivers' records.
        source: Folder of its source table, which exists.
        since: Start of the period to read (UTC).
        clock: Seconds of any steady clock.
    """

    def __init__(
        self,
        spec: PipelineSpec,
        tables: ControlTables,
        run_dir: Path,
        source: Path,
        since: datetime,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec, self._tables, self._run_dir, self._since, self._clock = spec, tables, run_dir, since, clock
        self._source = DeltaSource(source)
        self._totals: deque[tuple[float, int]] = deque()
        self._seen: set[str] = set()
        self._sustainable: dict[int, float] = {}
        self._apps = tuple(spec.app_specs)

    def read(self) -> LiveStats:
        """Return the current figures."""
        self._source.refresh()
        arrived = self._source.total_rows or 0
        records = {app: driver_records.all_of(self._run_dir, self._spec.name, app) for app in self._apps}
        serving = _slots(records, DriverState.RUNNING, DriverState.STOPPING)
        starting = _slots(records, DriverState.STARTING, DriverState.WAITING)
        recent = self._tables.reconfigurations.recent(self._spec.name, since=self._since)
        last = newest_of_each_app(recent)
        return LiveStats(
            event_rows_per_s=self._rate(arrived),
            arrived=arrived,
            processed=self._processed(),
            slots=sum(serving.values()) or None,
            starting=sum(starting.values()) or None,
            sustainable_rows_per_s=self._sustainable.get(sum(serving.values())),
            circuit_open=next((failure for change in last if (failure := _given_up(change))), None),
            changing=any(change.outcome is Outcome.OPEN for change in last),
            by_app=serving,
        )

    def new_decisions(self) -> list[Decision]:
        """Return the Decisions made since the last call, oldest first."""
        recent = self._tables.decisions.recent(self._spec.name, limit=10)
        new = [d for d in reversed(recent) if d.decision_id not in self._seen and d.time >= self._since]
        self._seen |= {d.decision_id for d in new}
        for decision in new:
            found = sustainable(decision.signals) if decision.signals else None
            if found is not None:
                self._sustainable[found[0]] = found[1]
        return new

    def _rate(self, arrived: int) -> float:
        now = self._clock()
        self._totals.append((now, arrived))
        while len(self._totals) > 2 and now - self._totals[1][0] >= RATE_WINDOW_S:
            self._totals.popleft()
        then, before = self._totals[0]
        return (arrived - before) / (now - then) if now > then else 0.0

    def _processed(self) -> int:
        sql = f"""
            select coalesce(sum(rows_in), 0) as processed from (
                select max(rows_in) as rows_in from batches
                where pipeline = {literal(self._spec.name)} and app = {literal(self._apps[-1])}
                group by query, epoch, batch_id
            )
        """  # noqa: S608 - values pass through literal()
        rows = self._tables.lake.rows(sql, "telemetry/batches")
        return int(rows[0]["processed"]) if rows else 0


def _slots(records: Mapping[str, Sequence[DriverRecord]], *states: DriverState) -> Mapping[str, int]:
    """Return the slots of each app's newest driver in one of the states."""
    in_state = {app: [record.slots for record in each if record.state in states] for app, each in records.items()}
    return {app: slots[0] for app, slots in in_state.items() if slots}


def _given_up(last: Reconfiguration) -> str | None:
    if last.outcome is not Outcome.CIRCUIT_OPEN:
        return None
    return last.error or "it failed repeatedly"
