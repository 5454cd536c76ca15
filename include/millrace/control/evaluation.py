"""The input of an evaluation, and what its first step passes to its second."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from millrace.model.protocols import Cursor
from millrace.model.signals import Signals


@dataclass(frozen=True)
class Request:
    """A person's request to an evaluation; empty by default.

    Attributes:
        forced_slots: Slots that the app must have, whatever the optimizers propose and whatever the mode.
        dry_run: True to decide and log without changing anything, not even the next evaluation's memory and cursor.
        requested_by: Name of the person.
        app: The app that must have the slots; None if there is only one.
    """

    forced_slots: int | None = None
    dry_run: bool = False
    requested_by: str | None = None
    app: str | None = None


NO_REQUEST = Request()


@dataclass(frozen=True)
class Hold:
    """Why an evaluation changes nothing: a reason code in snake case, and a message for a person."""

    reason: str
    message: str


@dataclass(frozen=True)
class BadRow:
    """A row that failed: its name (``delays batch 17 of generation 2``) and its value."""

    row: str
    value: str


@dataclass(frozen=True)
class Failure:
    """One expectation that failed.

    Attributes:
        expectation: Its name in Great Expectations, for example ``expect_column_values_to_be_between``.
        column: The column, with its table: ``telemetry/batches.rows_in``.
        rows: The first few rows that failed.
        sentence: The problem, for a person.
    """

    expectation: str
    column: str
    rows: tuple[BadRow, ...]
    sentence: str


@dataclass(frozen=True)
class GateResult:
    """The quality gate's verdict on the telemetry since the last evaluation.

    Attributes:
        passed: True if every expectation held.
        failures: The expectations that failed.
        sentence: The result for a person, one sentence.
        read_to: Position at which the gate stopped reading. The next evaluation continues there, so each refused row
            is judged once.
        note: Anything else that a person must know; empty if nothing.
    """

    passed: bool
    failures: tuple[Failure, ...] = ()
    sentence: str = ""
    read_to: Cursor = field(default_factory=Cursor)
    note: str = ""


@dataclass(frozen=True)
class EvaluationInput:
    """What was observed.

    Attributes:
        pipeline: Name of the pipeline.
        signals: The measurements; None if the evaluation did not get that far.
        gate: The quality gate's verdict.
        since: Position at which the evaluation started to read.
        hold: Why nothing can be decided; None if something can.
        time: When it was observed (UTC).
        until: Position at which the next evaluation continues.
        note: Anything else that a person must know, in addition to the Decision; empty if nothing.
    """

    pipeline: str
    signals: Signals | None
    gate: GateResult
    since: Cursor
    hold: Hold | None = None
    time: datetime | None = None
    until: Cursor | None = None
    note: str = ""
