"""What telemetry must look like, as Great Expectations suites, and how each failure is told to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from include.control.quality.frames import BATCH_KEY, CLOCK_TOLERANCE, OPERATOR_MEASURES
from include.pipelines.spec import Quality

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

BATCH_REQUIRED = ("time", "app", "query", "generation", "epoch", "batch_id", "slots", "rows_in")
BATCH_RANGES: dict[str, tuple[float | None, float | None]] = {
    "generation": (1, None),
    "epoch": (0, None),
    "batch_id": (0, None),
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
    **{f"least_operator_{name}": (1 if name in ("tasks", "p") else 0, None) for name in OPERATOR_MEASURES},
}
APP_REQUIRED = ("time", "app", "generation", "up_s")
APP_RANGES: dict[str, tuple[float | None, float | None]] = {
    "generation": (1, None),
    "cpu_ratio": (0, None),
    "rss_bytes": (0, None),
    "up_s": (0, None),
}


def tables_suite(quality: Quality, running: bool) -> list[Expectation]:
    """Return what holds for the tables: they are there and, while the pipeline runs, fresh."""
    import great_expectations.expectations as gxe

    there = gxe.ExpectColumnValuesToBeInSet(
        column="rows", value_set=[True], meta={"words": "{row} is missing or has no row of this pipeline"}
    )
    words = f"the newest row of {{row}} is {{value}} s old; at most {quality.max_age_s:g} s while the pipeline runs"
    fresh = gxe.ExpectColumnValuesToBeBetween(column="age_s", max_value=quality.max_age_s, meta={"words": words})
    return [there, fresh] if running else []


def columns_suite() -> list[Expectation]:
    """Return what holds for a table's columns: each is there and has its type."""
    import great_expectations.expectations as gxe

    return [
        gxe.ExpectColumnValuesToNotBeNull(column="found", meta={"words": "column {row} is missing"}),
        gxe.ExpectColumnValuesToBeInSet(
            column="agrees", value_set=[True], meta={"words": "column {row} has another type than the lake's schema"}
        ),
    ]


def batches_suite(quality: Quality) -> list[Expectation]:
    """Return what holds for the rows of ``telemetry/batches``."""
    import great_expectations.expectations as gxe

    return [
        *(_required(c) for c in BATCH_REQUIRED),
        *(_between(c, *limits) for c, limits in BATCH_RANGES.items()),
        gxe.ExpectColumnValuesToBeInSet(
            column="missing_duration", value_set=[False], meta={"words": "{row} has no duration"}
        ),
        gxe.ExpectCompoundColumnsToBeUnique(column_list=BATCH_KEY, meta={"words": "{row} is there more than once"}),
        _not_ahead(),
        _derived("time_step_s", 0, None, "{row} is out of order: it ended {value} s after the batch before it"),
        _derived("source_step_rows", 0, None, "{row}: source_end went back ({value} rows)"),
        _derived(
            "silent_s",
            None,
            quality.max_gap_s,
            f"before {{row}} there is a gap of {{value}} s while rows were coming; at most {quality.max_gap_s:g} s",
        ),
        _derived("unread_rows", None, 0, "{row} reads 0 rows while {value} rows are known to have come"),
    ]


def apps_suite() -> list[Expectation]:
    """Return what holds for the rows of ``telemetry/apps``."""
    ranges = (_between(c, *limits) for c, limits in APP_RANGES.items())
    return [*(_required(c) for c in APP_REQUIRED), *ranges, _not_ahead()]


def _required(column: str) -> Expectation:
    import great_expectations.expectations as gxe

    return gxe.ExpectColumnValuesToNotBeNull(column=column, meta={"words": f"{column} of {{row}} is missing"})


def _between(column: str, low: float | None, high: float | None) -> Expectation:
    allowed = f"{low:g} or more" if high is None else f"{low:g} to {high:g}"
    return _derived(column, low, high, f"{column} of {{row}} is {{value}}; allowed: {allowed}")


def _not_ahead() -> Expectation:
    return _derived("ahead_s", None, CLOCK_TOLERANCE.total_seconds(), "{row} lies {value} s in the future")


def _derived(column: str, low: float | None, high: float | None, words: str) -> Any:
    import great_expectations.expectations as gxe

    return gxe.ExpectColumnValuesToBeBetween(column=column, min_value=low, max_value=high, meta={"words": words})
