"""Where an evaluation begins to read, and which files it could not read: both are said once, in a Decision."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from millrace.control.evaluation import BadRow, Failure, GateResult
from millrace.control.messages import TABLE_REPLACED, UNREADABLE
from millrace.lake.control_tables import ControlTables
from millrace.model.protocols import Cursor

TELEMETRY = "telemetry/batches"
NAMED_ONCE_IN = timedelta(days=1)
"""How long a file that a Decision named is not named again: longer than any is read, but for a memory that rests."""


def starting_point(tables: ControlTables, pipeline: str) -> tuple[Cursor, str]:
    """Return where to begin, and what is to be said of it.

    Versions are those of one table: where it was deleted and made anew, the last evaluation's says nothing. One that
    did not note its table read this one, unless it came farther than the table is.

    Raises:
        MillraceError: If the table's log cannot be read.
    """
    last, lake = tables.decisions.cursor(pipeline), tables.lake
    table_id = lake.log(TELEMETRY).table_id()
    if table_id is None:
        return last, ""
    same = last.telemetry_version <= lake.version(TELEMETRY) if last.table_id is None else last.table_id == table_id
    return (replace(last, table_id=table_id), "") if same else (Cursor(table_id=table_id), TABLE_REPLACED)


def unreported_files(tables: ControlTables, pipeline: str, now: datetime) -> tuple[str, ...]:
    """Return files that were needed, could not be read, and that no Decision of the pipeline has named of late.

    Args:
        tables: The control tables; their lake remembers what it could not read.
        pipeline: Name of the pipeline.
        now: The present (UTC).
    """
    unreadable = tables.lake.unreadable
    if not unreadable:
        return ()
    decisions = tables.decisions.of_reason(pipeline, UNREADABLE, now - NAMED_ONCE_IN)
    reasons = [outcome.reason for decision in decisions for outcome in decision.guards]
    return tuple(file for file in unreadable if not any(file in reason for reason in reasons))


def refused(gate: GateResult, files: tuple[str, ...]) -> GateResult:
    """Return a gate's result that files which cannot be read add to: all are named, and what else it found is kept."""
    failure = Failure("readable", "", tuple(BadRow(file, "") for file in files), f"unreadable: {', '.join(files)}")
    sentence = failure.sentence if gate.passed else f"{failure.sentence}; {gate.sentence}"
    return replace(gate, passed=False, failures=(failure, *gate.failures), sentence=sentence)
