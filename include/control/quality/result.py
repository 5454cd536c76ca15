"""What the quality gate says."""

from __future__ import annotations

from dataclasses import dataclass, field

from include.model.protocols import Cursor


@dataclass(frozen=True)
class BadRow:
    """A row that failed: where it is (``delays batch 17 of generation 2``) and the value found."""

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
    """What the gate says about the telemetry since the last look.

    Attributes:
        passed: True if every expectation held.
        failures: Those that did not.
        sentence: The result for a person, one sentence.
        docs: Address of the Data Docs; None before they were first built.
        read_to: Where the gate stopped reading: a refused row is judged once, the next look goes on behind it.
        note: What a person must know besides; empty if nothing.
    """

    passed: bool
    failures: tuple[Failure, ...] = ()
    sentence: str = ""
    docs: str | None = None
    read_to: Cursor = field(default_factory=Cursor)
    note: str = ""
