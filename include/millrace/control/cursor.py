"""Find where an evaluation starts to read, and which files it could not read. A Decision reports either once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from millrace.control.evaluation import BadRow, Failure, GateResult
from millrace.control.messages import TABLE_REPLACED, UNREADABLE
from millrace.lake.control_tables import ControlTables
from millrace.model.protocols import Cursor

TELEMETRY = "telemetry/batches"
NAMED_ONCE_IN = timedelta(days=1)
"""How long a file that a Decision named is not named again. Only memories that rest are read for longer."""


def starting_point(tables: ControlTables, pipeline: str) -> tuple[Cursor, str]:
    """Return where to start, and what to report about it.

    A version belongs to one table. If the table was deleted and recreated, the last evaluation's version means nothing.
    An evaluation that did not note its table read this one, unless its version is higher than the table's.

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
    """Return needed files that could not be read and that no recent Decision of the pipeline has named.

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
    """Return a gate's result with the unreadable files added: all are named, and its own findings are kept."""
    failure = Failure("readable", "", tuple(BadRow(file, "") for file in files), f"unreadable: {', '.join(files)}")
    sentence = failure.sentence if gate.passed else f"{failure.sentence}; {gate.sentence}"
    return replace(gate, passed=False, failures=(failure, *gate.failures), sentence=sentence)
