"""Judge the telemetry since the last evaluation; a refusal leads to a hold, never to a change."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from millrace.control.evaluation import BadRow, Failure, GateResult
from millrace.control.quality import expectations, frames
from millrace.control.quality.docs import DataDocs
from millrace.control.quality.measures import Part, frames_source, sound
from millrace.lake.control_tables import ControlTables
from millrace.lake.rows_since import CATCH_UP_ROWS, NewRows, read_since, read_span
from millrace.model.errors import MillraceError
from millrace.model.protocols import Cursor
from millrace.model.spec import PipelineSpec

BATCHES, APPS = "telemetry/batches", "telemetry/apps"
SKIPPED = f"So much telemetry arrived since the last evaluation that only its newest {CATCH_UP_ROWS} rows were read."
NAMED_ROWS = 3
"""Offending rows that a failure names."""


@dataclass(frozen=True)
class QualityGate:
    """Judges one pipeline's telemetry.

    Attributes:
        spec: The pipeline.
        tables: Its control tables, in the lake of its telemetry.
        docs: Keeps the results as pages; None keeps none.
    """

    spec: PipelineSpec
    tables: ControlTables
    docs: DataDocs | None = None

    def check(self, since: Cursor, now: datetime) -> GateResult:
        """Judge the telemetry committed since a cursor.

        Args:
            since: Position at which the last evaluation stopped reading.
            now: The present (UTC).
        """
        os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
        name, lake = self.spec.name, self.tables.lake
        try:
            seen = {
                BATCHES: read_since(lake, BATCHES, name, since.telemetry_version),
                APPS: read_span(lake, APPS, name, since.until, now + frames.CLOCK_TOLERANCE),
            }
            parts = _parts(self.spec, self.tables, seen, now)
        except MillraceError as error:
            failure = Failure("readable", error.key, (BadRow(str(error.value), ""),), str(error))
            return GateResult(False, (failure,), _summary((failure,)), since)
        failures = _validate(parts)
        version = max(seen[BATCHES].version, since.telemetry_version)
        read_to = Cursor(version, _until(seen, since, now), since.table_id)
        if self.docs is not None:
            self.docs.keep(parts, [f"{f.expectation} {f.column}" for f in failures], now)
        note = "" if seen[BATCHES].whole else SKIPPED
        return GateResult(not failures, failures, _summary(failures), read_to, note)


def _parts(spec: PipelineSpec, tables: ControlTables, seen: Mapping[str, NewRows], now: datetime) -> list[Part]:
    import pandas as pd

    deployment = tables.deployments.latest(spec.name)
    last = tables.reconfigurations.recent(spec.name, 1)
    running = deployment is not None and deployment.running
    ages = frames.tables_frame(dict(seen), now, last[0].started if last else None)
    there = [table for table in seen if seen[table].types]
    columns = {table: frames.columns_frame(table, seen[table]) for table in there}
    pace_s = frames.batches_pace_s(seen[BATCHES]) if BATCHES in there and columns[BATCHES]["agrees"].all() else 0.0
    parts = [Part("tables", ages, expectations.tables_suite(spec.quality, running, pace_s), ("table",))]
    if there:
        parts.append(Part("columns", pd.concat(columns.values()), expectations.columns_suite(), ("column",)))
    judged = [table for table in there if columns[table]["sound"].all() and seen[table].rows.num_rows]
    if BATCHES in judged:
        nodes = () if spec.fleet is None else spec.fleet.node_names
        batches = frames.batches_frame(seen[BATCHES], now, nodes)
        suite = expectations.batches_suite(spec.quality)
        parts.append(Part(BATCHES, batches, suite, ("app", "batch_id", "generation")))
    if APPS in judged:
        suite = expectations.apps_suite()
        parts.append(Part(APPS, frames.apps_frame(seen[APPS], now), suite, ("app", "generation", "time")))
    return [part for part in parts if part.suite]


def _validate(parts: Sequence[Part]) -> tuple[Failure, ...]:
    """Return all failures, judged in a context of their own that writes nothing."""
    if sound(parts):
        return ()
    source = frames_source()
    failures: list[Failure] = []
    for part in parts:
        rows = source.add_dataframe_asset(part.name).add_batch_definition_whole_dataframe("since the last evaluation")
        batch = rows.get_batch({"dataframe": part.frame})
        # naming the rows doubles the time: do it only for what failed
        refused = {_message(result) for result in _results(batch, part, part.suite, "BOOLEAN_ONLY")}
        suite = [check for check in part.suite if check.message in refused]
        failures += [_failure(part, result) for result in _results(batch, part, suite, "COMPLETE")]
    return tuple(failures)


def _results(batch: Any, part: Part, checks: Sequence[expectations.Check], detail: str) -> list[Any]:
    """Return the failed checks of a suite; ``detail`` says whether their rows are named."""
    if not checks:
        return []
    wanted: dict[str, Any] = {"result_format": detail}
    if detail == "COMPLETE":
        wanted["unexpected_index_column_names"] = list(part.key)
    validation = batch.validate(expectations.suite(part.name, checks), result_format=wanted)
    return [result for result in validation.results if not result.success]


def _message(result: Any) -> str:
    return str(result.expectation_config.meta["message"])


def _failure(part: Part, result: Any) -> Failure:
    config = result.expectation_config
    column = config.kwargs.get("column") or ", ".join(config.kwargs.get("column_list", ()))
    bad_rows = result.result.get("unexpected_index_list") or []
    rows = tuple(BadRow(_row(part, row), _value(row.get(column))) for row in bad_rows[:NAMED_ROWS])
    message = _message(result)
    if rows:
        sentence = message.format(row=rows[0].row, value=rows[0].value)
        sentence += f" (and {len(bad_rows) - 1} more)" if len(bad_rows) > 1 else ""
    else:
        sentence = f"{config.type} on {part.name} could not be judged"
    return Failure(config.type, f"{part.name}.{column}", rows, sentence)


def _row(part: Part, row: Mapping[str, Any]) -> str:
    if part.name == BATCHES:
        return f"{row['app']} batch {_value(row['batch_id'])} of generation {_value(row['generation'])}"
    if part.name == APPS:
        return f"{row['app']} in {APPS} at {row['time']}"
    return str(row[part.key[0]])


def _value(value: Any) -> str:
    if value is None or value != value:  # NaN differs from itself
        return "null"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _summary(failures: Sequence[Failure]) -> str:
    if not failures:
        return "the telemetry is sound"
    more = len(failures) - 1
    also = f"; {more} more expectation{'s' if more > 1 else ''} failed" if more else ""
    return f"{failures[0].sentence}{also}"


def _until(seen: Mapping[str, NewRows], cursor: Cursor, now: datetime) -> datetime | None:
    times = [frames.newest_time(since.rows, now) for since in seen.values()]
    return max((t for t in (*times, cursor.until) if t is not None), default=None)
