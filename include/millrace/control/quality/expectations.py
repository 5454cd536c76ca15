"""What telemetry must look like, as Great Expectations suites, and the message of each failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from millrace.control.quality.frames import BATCH_KEY, CLOCK_TOLERANCE, OPERATOR_MEASURES
from millrace.lake.pace import late_after_s
from millrace.model.spec_sections import Quality

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

BATCH_REQUIRED = ("time", "app", "query", "generation", "epoch", "batch_id", "slots", "rows_in")
BATCH_RANGES: dict[str, tuple[float | None, float | None]] = {
    "generation": (1, None),
    "epoch": (0, None),
    "batch_id": (-1, None),
    "slots": (1, 4096),
    "rows_in": (0, None),
    "rows_out": (0, None),
    "duration_s": (0, None),
    "least_duration_ms": (0, None),
    "backlog_rows": (0, None),
    "source_end": (0, None),
    "state_rows": (0, None),
    "state_bytes": (0, None),
    "host_cpu_other": (0, 1),
    "running_tasks": (0, None),
    "trigger_s": (0, None),
    **{f"least_operator_{name}": (1 if name in ("tasks", "p") else 0, None) for name in OPERATOR_MEASURES},
}
APP_REQUIRED = ("time", "app", "generation", "up_s")
APP_RANGES: dict[str, tuple[float | None, float | None]] = {
    "generation": (1, None),
    "cpu_ratio": (0, None),
    "rss_bytes": (0, None),
    "up_s": (0, None),
}


@dataclass(frozen=True)
class Check:
    """One condition on a frame, as plain data: the costly expectation is made only if it fails.

    Attributes:
        message: Message of its failure; ``{row}`` and ``{value}`` are filled in.
        columns: The column; for unique rows, the columns that must differ.
    """

    message: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Required(Check):
    """No value is null."""


@dataclass(frozen=True)
class Between(Check):
    """Every value that is not null is within ``low`` and ``high``; None for no limit."""

    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Always(Check):
    """Every value is ``truth``."""

    truth: bool = True


@dataclass(frozen=True)
class Unique(Check):
    """No two rows have the same values."""


def suite(name: str, checks: Sequence[Check]) -> Any:
    """Return checks as an expectation suite."""
    import great_expectations as gx

    return gx.ExpectationSuite(name=name, expectations=[_expectation(check) for check in checks])


def _expectation(check: Check) -> Expectation:
    import great_expectations.expectations as gxe

    column, meta = check.columns[0], {"message": check.message}
    match check:
        case Required():
            return gxe.ExpectColumnValuesToNotBeNull(column=column, meta=meta)
        case Between(low=low, high=high):
            return gxe.ExpectColumnValuesToBeBetween(column=column, min_value=low, max_value=high, meta=meta)
        case Always(truth=truth):
            return gxe.ExpectColumnValuesToBeInSet(column=column, value_set=[truth], meta=meta)
        case Unique():
            return gxe.ExpectCompoundColumnsToBeUnique(column_list=list(check.columns), meta=meta)
        case _:
            raise NotImplementedError(type(check).__name__)


def tables_suite(quality: Quality, running: bool, pace_s: float = 0.0) -> list[Check]:
    """Return the checks of the tables: they exist and, while the pipeline runs, are fresh.

    Args:
        quality: The spec's limits.
        running: Whether the pipeline is supposed to run.
        pace_s: Usual time between two batches, seconds.
    """
    there = Always("{row} is missing or has no row of this pipeline", ("rows",))
    limit_s = quality.max_age_s
    driver = Between(
        f"the newest row of {{row}} is {{value}} s old; at most {limit_s:g} s while the pipeline runs",
        ("driver_age_s",), None, limit_s,
    )  # fmt: skip
    limit_s = late_after_s(pace_s, quality.max_age_s)
    usual = f", as batches are up to {pace_s:.3g} s apart" if pace_s >= 1 else ""
    batches = Between(
        f"the newest row of {{row}} is {{value}} s old; at most {limit_s:.6g} s while the pipeline runs{usual}",
        ("batches_age_s",), None, limit_s,
    )  # fmt: skip
    return [there, driver, batches] if running else []


def columns_suite() -> list[Check]:
    """Return the checks of a table's columns: each exists and has its type."""
    return [
        Required("column {row} is missing", ("found",)),
        Always("column {row} has another type than the lake's schema", ("agrees",)),
    ]


def batches_suite(quality: Quality) -> list[Check]:
    """Return the checks of the rows of ``telemetry/batches``."""
    return [
        *(_required(c) for c in BATCH_REQUIRED),
        *(_between(c, *limits) for c, limits in BATCH_RANGES.items()),
        Always("{row} has no duration", ("missing_duration",), truth=False),
        Unique("{row} appears more than once", tuple(BATCH_KEY)),
        _not_ahead(),
        Between("{row} is out of order: it ended {value} s after the batch before it", ("time_step_s",), 0),
        Between("{row}: source_end went back ({value} rows)", ("source_step_rows",), 0),
        Between(
            "{row} follows a gap of {value} s beyond its trigger's interval although rows were arriving; at most "
            f"{quality.max_gap_s:g} s",
            ("silent_s",),
            None,
            quality.max_gap_s,
        ),
        Between("{row} reads 0 rows while {value} rows are known to have arrived", ("unread_rows",), None, 0),
    ]


def apps_suite() -> list[Check]:
    """Return the checks of the rows of ``telemetry/apps``."""
    ranges = (_between(c, *limits) for c, limits in APP_RANGES.items())
    return [*(_required(c) for c in APP_REQUIRED), *ranges, _not_ahead()]


def _required(column: str) -> Check:
    return Required(f"{column} of {{row}} is missing", (column,))


def _between(column: str, low: float | None, high: float | None) -> Check:
    allowed = f"{low:g} or more" if high is None else f"{low:g} to {high:g}"
    return Between(f"{column} of {{row}} is {{value}}; allowed: {allowed}", (column,), low, high)


def _not_ahead() -> Check:
    return Between("{row} is {value} s in the future", ("ahead_s",), None, CLOCK_TOLERANCE.total_seconds())
