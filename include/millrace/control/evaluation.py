"""What goes into an evaluation, and what its first step hands to its second."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from millrace.model.protocols import Cursor
from millrace.model.signals import Signals


@dataclass(frozen=True)
class Request:
    """What a person asked of an evaluation; nothing by default.

    Attributes:
        forced_slots: Slots that the app shall have, whatever the optimizers think and whatever the mode.
        dry_run: True to decide and log without changing anything, the next evaluation's memory and cursor included.
        requested_by: Who asked.
    """

    forced_slots: int | None = None
    dry_run: bool = False
    requested_by: str | None = None


NO_REQUEST = Request()


@dataclass(frozen=True)
class Hold:
    """Why an evaluation changes nothing: a reason code in snake case, and the message for a person."""

    reason: str
    message: str


@dataclass(frozen=True)
class BadRow:
    """A row that failed: where it is (``delays batch 17 of generation 2``) and its value."""

    row: str
    value: str


@dataclass(frozen=True)
class Failure:
    """One expectation that did not hold.

    Attributes:
        expectation: Great Expectations' name of it, for example ``expect_column_values_to_be_between``.
        column: The column, with its table: ``telemetry/batches.rows_in``.
        rows: The first few rows that failed.
        sentence: What is wrong, for a person.
    """

    expectation: str
    column: str
    rows: tuple[BadRow, ...]
    sentence: str


@dataclass(frozen=True)
class GateResult:
    """What the quality gate says about the telemetry since the last evaluation.

    Attributes:
        passed: True if every expectation held.
        failures: Those that did not.
        sentence: The result for a person, one sentence.
        docs: Address of the Data Docs; None before they were first built.
        read_to: Where the gate stopped reading: a refused row is judged once, the next evaluation goes on behind it.
        note: What a person must know besides; empty if nothing.
    """

    passed: bool
    failures: tuple[Failure, ...] = ()
    sentence: str = ""
    docs: str | None = None
    read_to: Cursor = field(default_factory=Cursor)
    note: str = ""


@dataclass(frozen=True)
class EvaluationInput:
    """What was observed; a JSON value for the codec, so that it travels between Airflow tasks.

    Attributes:
        pipeline: Name of the pipeline.
        signals: What was measured; None if the evaluation did not get that far.
        gate: What the quality gate said.
        since: Where the evaluation began to read.
        hold: Why nothing can be decided; None if something can.
        time: When it was observed (UTC).
        until: Where the next evaluation goes on.
        note: What a person must know besides what is decided; empty if nothing.
    """

    pipeline: str
    signals: Signals | None
    gate: GateResult
    since: Cursor
    hold: Hold | None = None
    time: datetime | None = None
    until: Cursor | None = None
    note: str = ""
