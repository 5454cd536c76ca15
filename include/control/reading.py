"""Where a look begins to read, and what it could not read: both are told once, in a Decision."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from include.control.evaluation import BadRow, Failure, GateResult
from include.lake.decisions import DecisionStore
from include.lake.store import Lake
from include.model.protocols import Cursor

TELEMETRY = "telemetry/batches"
UNREADABLE = "unreadable_file"
RESET = "The telemetry table was made anew since the last look: this one starts from its newest rows."
TOLD_FOR = timedelta(days=1)
"""How long a file that was told of is not told of again: longer than any is read, but for a memory that rests."""
NAMED = 3
"""Files that a sentence names."""


def starting_point(lake: Lake, last: Cursor) -> tuple[Cursor, str]:
    """Return where to begin, and what is to be said of it.

    Versions are those of one table: where it was deleted and made anew, the last look's says nothing. A look that did
    not note its table read this one, unless it came farther than the table is.

    Args:
        lake: The telemetry.
        last: Where the last look stopped.

    Raises:
        MillraceError: If the table's log cannot be read.
    """
    table_id = lake.log(TELEMETRY).table_id()
    if table_id is None:
        return last, ""
    same = last.telemetry_version <= lake.version(TELEMETRY) if last.table_id is None else last.table_id == table_id
    return (replace(last, table_id=table_id), "") if same else (Cursor(table_id=table_id), RESET)


def untold_files(lake: Lake, pipeline: str, now: datetime) -> tuple[str, ...]:
    """Return files that this look needed and could not read, and that no Decision of the pipeline has named of late.

    Args:
        lake: The lake that the look has read by.
        pipeline: Name of the pipeline.
        now: The present (UTC).
    """
    if not lake.unreadable:
        return ()
    told = DecisionStore(lake).of_reason(pipeline, UNREADABLE, now - TOLD_FOR)
    reasons = [outcome.reason for decision in told for outcome in decision.guards]
    return tuple(file for file in lake.unreadable if not any(file in reason for reason in reasons))


def refused(gate: GateResult, files: tuple[str, ...]) -> GateResult:
    """Return a gate's result that files which cannot be read add to: all are named, and what else it found is kept."""
    failure = Failure("readable", "", tuple(BadRow(file, "") for file in files), f"unreadable: {', '.join(files)}")
    sentence = failure.sentence if gate.passed else f"{failure.sentence}; {gate.sentence}"
    return replace(gate, passed=False, failures=(failure, *gate.failures), sentence=sentence)


def sentence(files: tuple[str, ...], gate: GateResult) -> str:
    """Return what a person is told of files that cannot be read."""
    more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
    words = f"Nothing is changed: {', '.join(files[:NAMED])}{more} cannot be read, and later looks go on without."
    return words if gate.passed else f"{words} Besides: {gate.sentence}."
