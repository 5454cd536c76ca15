"""Every evaluation and its result, including holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.compute as pc

from millrace.lake.newest_rows import RowQuery, read_recent
from millrace.lake.row_codec import decision_from_row, decision_row, run_row
from millrace.lake.store import Lake, literal
from millrace.model.decision import CARRIED_OUT, Action, Decision
from millrace.model.protocols import Cursor
from millrace.model.signals import Signals

TABLE = "control/decisions"
RUNS = "control/runs"
MOST_EVALUATIONS = 100_000
"""More than two months of one evaluation per minute."""
ID_TIME = "%Y%m%dT%H%M%S"
CLOCK_SET_BACK = timedelta(hours=1)
"""How far the clock may step back between a Decision and records under an id of its time."""
LAST_TRIED = 3
"""Number of evaluations to search for one that is no dry run: several dry runs in a row are rare."""
_EVALUATED = pc.field("cursor_version").is_valid()
_MEASURED = _EVALUATED & pc.field("signals").is_valid()
_ADMITTED = pc.match_substring(pc.field("proposals"), '"admission":{')


def new_decision_id(time: datetime, *what: str) -> str:
    """Return an id that sorts by time, for example ``20130101T120000-1f3a9c04``.

    The same evaluation gives the same id, so a retried task finds the Decision that it made before.

    Args:
        time: Time of the evaluation (UTC).
        what: Text that distinguishes this Decision from others of the same second: the pipeline, the request.
    """
    digest = hashlib.sha256("\0".join([time.isoformat(), *what]).encode()).hexdigest()
    return f"{time.strftime(ID_TIME)}-{digest[:8]}"


def veto_id(decision: Decision) -> str:
    """Return the id of the only veto that can end a Decision which waited or could no longer be applied."""
    return new_decision_id(decision.time, decision.pipeline, "refused", decision.decision_id)


@dataclass(frozen=True)
class DecisionStore:
    """Decisions of all pipelines in ``control/decisions``, and their MLflow runs in ``control/runs``."""

    lake: Lake

    def record(self, decision: Decision) -> bool:
        """Store a Decision once; return False if it was stored before (a retried task)."""
        done = self.lake.append(TABLE, [decision_row(decision)], {_transaction(decision.decision_id): 1})
        return done is not None

    def record_run(self, decision: Decision, run_id: str, models: Mapping[str, str]) -> None:
        """Store a Decision's MLflow run and the registered models that it used, name: version."""
        row = run_row(decision, run_id, models)
        self.lake.append(RUNS, [row], {f"run/{decision.decision_id}": 1})

    def with_runs(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Return Decisions of one pipeline with their recorded MLflow runs."""
        if not decisions:
            return []
        oldest = min(decision.time for decision in decisions)
        query = RowQuery(RUNS, decisions[0].pipeline, MOST_EVALUATIONS, not_before=oldest)
        runs = {row["decision_id"]: row for row in read_recent(self.lake, query).rows.to_pylist()}
        return [
            replace(d, mlflow_run_id=runs[d.decision_id]["run_id"], models=json.loads(runs[d.decision_id]["models"]))
            if d.decision_id in runs
            else d
            for d in decisions
        ]

    def get(self, decision_id: str) -> Decision | None:
        """Return one Decision."""
        query = RowQuery(
            TABLE, None, 1, not_before=_not_before(decision_id), equal={"decision_id": decision_id},
            transaction=_transaction(decision_id),
        )  # fmt: skip
        return self._newest(query)

    def recorded(self, decision_id: str) -> Decision | None:
        """Return a Decision that a retried task may have recorded a moment ago.

        The table's transactions show whether it exists: :meth:`get` would search an hour of all pipelines' Decisions.
        """
        done = self.lake.committed(TABLE, _transaction(decision_id)) >= 0
        return self.get(decision_id) if done else None

    def last(self, pipeline: str) -> Decision | None:
        """Return a pipeline's newest Decision."""
        return self._newest(RowQuery(TABLE, pipeline, 1))

    def cursor(self, pipeline: str) -> Cursor:
        """Return where a pipeline's last evaluation stopped reading."""
        last = self._newest(RowQuery(TABLE, pipeline, 1, where=_EVALUATED))
        if last is None or last.cursor_version is None:
            return Cursor()
        return Cursor(last.cursor_version, last.cursor_until, last.cursor_table)

    def last_measured(self, pipeline: str) -> Decision | None:
        """Return a pipeline's newest evaluation that measured something and was not a dry run."""
        last = self._read(RowQuery(TABLE, pipeline, LAST_TRIED, where=_MEASURED))
        return next((decision for decision in last if _counts(decision)), None)

    def last_signals(self, pipeline: str) -> Signals | None:
        """Return what the last evaluation that measured anything measured; None if none did."""
        last = self.last_measured(pipeline)
        return None if last is None else last.signals

    def resumed_from(self, pipeline: str) -> tuple[Decision | None, ...]:
        """Return what a pipeline continues from: its newest Decision, last evaluation, and last that measured."""
        last, evaluated = self.last(pipeline), self._newest(RowQuery(TABLE, pipeline, 1, where=_EVALUATED))
        return last, evaluated, self.last_measured(pipeline)

    def awaiting(self, pipeline: str, since: datetime) -> list[Decision]:
        """Return a pipeline's Decisions since a time that asked a person for approval, newest first."""
        newest = self._read(RowQuery(TABLE, pipeline, 100, not_before=since, equal={"action": Action.AWAIT.value}))
        return [decision for decision in newest if decision.time > since]

    def of_reason(self, pipeline: str, reason_code: str, since: datetime) -> list[Decision]:
        """Return a pipeline's Decisions with one reason since a time, newest first, at most 100."""
        newest = self._read(RowQuery(TABLE, pipeline, 100, not_before=since, equal={"reason_code": reason_code}))
        return [decision for decision in newest if decision.time >= since]

    def evaluations(self, pipeline: str, since: datetime | None, until: datetime) -> list[Decision]:
        """Return the evaluations of a pipeline that measured something, oldest first.

        Dry runs are left out: the evaluation after a dry run starts where the dry run did.

        Args:
            pipeline: Name of the pipeline.
            since: Earliest time (UTC), inclusive; None for no limit.
            until: Latest time (UTC), inclusive.
        """
        where = f"pipeline = {literal(pipeline)} and cursor_version is not null and time <= {literal(until)}"
        if since is not None:
            where += f" and time >= {literal(since)} and date >= cast({literal(f'{since:%Y-%m-%d}')} as date)"
        sql = f"select * from decisions where {where} and signals is not null order by time limit {MOST_EVALUATIONS}"  # noqa: S608 - values pass through literal()
        return [decision for row in self.lake.rows(sql, TABLE) if _counts(decision := decision_from_row(row))]

    def sample(self, pipelines: Sequence[str], since: datetime, until: datetime, most: int) -> list[dict[str, Any]]:
        """Return what charts show of a period: about ``most`` evaluations per pipeline, all changes, all requests.

        Args:
            pipelines: Names of the pipelines, at least one.
            since: Earliest time (UTC), inclusive.
            until: Latest time (UTC), inclusive.
            most: Approximate number per pipeline, > 0.

        Returns:
            Rows of pipeline, time, action, sentence and signals (JSON; null if it measured nothing), oldest first.
        """
        measured = "(signals is not null and cursor_version is not null)"  # an expired request repeats older signals
        actions = ", ".join(literal(action.value) for action in (*CARRIED_OUT, Action.AWAIT))

        where = f"pipeline in ({', '.join(map(literal, pipelines))})"
        where += f" and date >= cast({literal(f'{since:%Y-%m-%d}')} as date)"
        where += f" and time >= {literal(since)} and time <= {literal(until)}"
        where += f" and ({measured} or action in ({actions}))"
        each = "partition by pipeline"
        count = f"row_number() over ({each} order by time) as n, count(*) over ({each}) as total"
        rows = f"select *, {count} from decisions where {where}"  # noqa: S608 - values pass through literal()
        condition = f"n % greatest(total / {most}, 1) = 0 or action in ({actions})"
        columns = f"pipeline, time, action, sentence, case when {measured} then signals end as signals"
        return self.lake.rows(f"select {columns} from ({rows}) where {condition} order by time", TABLE)  # noqa: S608

    def last_admission(self, pipeline: str, since: datetime) -> Decision | None:
        """Return a pipeline's newest Decision since a time (UTC) with a plan for its input streams; None without one.

        Most evaluations have none: streams are counted in longer periods.
        """
        found = self._newest(RowQuery(TABLE, pipeline, 1, not_before=since, where=_ADMITTED))
        return found if found is not None and found.time >= since else None

    def last_evaluation(self, pipeline: str, until: datetime) -> Decision | None:
        """Return a pipeline's newest evaluation up to a time (UTC) that measured something."""
        return self._newest(RowQuery(TABLE, pipeline, 1, where=_MEASURED & (pc.field("time") <= until)))

    def recent(self, pipeline: str | None = None, limit: int = 50) -> list[Decision]:
        """Return the newest Decisions, newest first, of one pipeline or of all."""
        return self._read(RowQuery(TABLE, pipeline, limit))

    def _newest(self, query: RowQuery) -> Decision | None:
        return next(iter(self._read(query)), None)

    def _read(self, query: RowQuery) -> list[Decision]:
        """Return Decisions, newest first."""
        return [decision_from_row(row) for row in reversed(read_recent(self.lake, query).rows.to_pylist())]


def _counts(decision: Decision) -> bool:
    """Return whether an evaluation measured something and was not a dry run, so the next one continues from it."""
    return decision.signals is not None and decision.signals.telemetry_version == decision.cursor_version


def _transaction(decision_id: str) -> str:
    return f"decision/{decision_id}"


def _not_before(decision_id: str) -> datetime | None:
    """Return the earliest time at which a Decision can have been recorded (UTC); None if its id has no time."""
    try:
        return datetime.strptime(decision_id.partition("-")[0], ID_TIME).replace(tzinfo=UTC) - CLOCK_SET_BACK
    except ValueError:
        return None
