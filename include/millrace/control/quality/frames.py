"""Telemetry as flat frames, with derived columns that turn order, gaps and silence into plain range checks."""

from __future__ import annotations

import math
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from millrace.control.fleet_rows import HEARTBEAT
from millrace.lake.pace import NEWEST_ROWS, TABLE, pace_s
from millrace.lake.rows_since import NewRows, expected_types
from millrace.model.arrival import ArrivalBasis

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

QUERY = ["place", "query", "epoch"]
BATCH_KEY = ["app", "query", "epoch", "batch_id", "generation", "marker_at"]
CLOCK_TOLERANCE = timedelta(seconds=5)
"""How far a row's time may be ahead of this clock."""

OPERATOR_MEASURES = ("tasks", "p", "rows_in", "rows_out", "useful_s")


def columns_frame(table: str, since: NewRows) -> pd.DataFrame:
    """Return one row per column of ``table``: its name, the type expected and the type found (null: missing)."""
    import pandas as pd

    expected = expected_types(table)
    return pd.DataFrame(
        {
            "column": [f"{table}.{column}" for column in expected],
            "expected": [_short(t) for t in expected.values()],
            "found": [_short(since.types[c]) if c in since.types else None for c in expected],
            "agrees": [since.types.get(c, t) == t for c, t in expected.items()],
            "sound": [since.types.get(c) == t for c, t in expected.items()],
        }
    )


def tables_frame(seen: dict[str, NewRows], now: datetime, started: datetime | None) -> pd.DataFrame:
    """Return one row per telemetry table: whether it exists, and the age of its newest row in seconds.

    ``batches_age_s`` is the age of the table whose rows come with batches, ``driver_age_s`` that of any other.

    Args:
        seen: The rows that were read, by table.
        now: The present (UTC).
        started: When the last reconfiguration started: until the app has had time to report, silence does not count.
    """
    import pandas as pd

    rows = []
    for table, since in seen.items():
        newest = max((t for part in (since.rows, since.before) if (t := newest_time(part, now))), default=None)
        known = [t for t in (newest, started) if t is not None]
        age_s = (now - max(known)).total_seconds() if known else None
        column, other = ("batches_age_s", "driver_age_s")[:: 1 if table == TABLE else -1]
        # rows that are all in the future fail another check
        there = newest is not None or started is not None or since.rows.num_rows > 0
        rows.append({"table": table, "rows": there, column: age_s, other: None})
    ages = dict.fromkeys(("batches_age_s", "driver_age_s"), "float64")
    return pd.DataFrame(rows, columns=["table", "rows", *ages]).astype(ages)


def batches_pace_s(since: NewRows) -> float:
    """Return the usual time between the newest batches, seconds; 0 if nothing is known."""
    newest: list[dict[str, Any]] = []
    for part in (since.before, since.rows):
        names = [name for name in ("query", "generation", "trigger_s", "durations_ms") if name in part.column_names]
        newest += part.select(names).slice(max(0, part.num_rows - NEWEST_ROWS)).to_pylist()
    return pace_s(newest)


def newest_time(part: pa.Table, now: datetime) -> datetime | None:
    """Return the newest time of some rows that is not in the future; None if there is none."""
    if "time" not in part.column_names or not pa.types.is_timestamp(part.schema.field("time").type):
        return None
    limit = pa.scalar(now + CLOCK_TOLERANCE, part.schema.field("time").type)
    newest: datetime | None = pc.max(part["time"].filter(pc.less_equal(part["time"], limit))).as_py()
    return newest


def batches_frame(since: NewRows, now: datetime, nodes: Collection[str] = ()) -> pd.DataFrame:
    """Return the new rows of ``telemetry/batches`` with derived columns for the checks.

    A row without rows and duration is an idle marker: it reports the source's end while no batch runs, under the id of
    the batch before. It needs no duration (``missing_duration`` is False), and its key repeats that batch's
    (``marker_at`` makes it unique).

    Derived columns: ``duration_s``; ``least_duration_ms``; ``least_operator_*``; ``ahead_s`` (time after now);
    and against the batch before of the same query, by batch id, whichever node of a fleet ran it: ``time_step_s``,
    ``source_step_rows``, ``silent_s`` (time between the two batches, less the trigger's interval, while rows were
    waiting or coming, or batches are missing) and ``unread_rows`` (rows known to wait, or to have come, that a batch of
    0 rows left unread).

    Args:
        since: The new rows, and those before them.
        now: The present (UTC).
        nodes: Names of apps whose queries move from one to the other.
    """
    import numpy as np
    import pandas as pd

    parts = [part for part in (since.before, since.rows) if part.num_rows]
    if not parts:
        return pd.DataFrame()
    frame = _flat(pa.concat_tables(parts, promote_options="permissive"))
    if "trigger_s" not in frame:
        frame["trigger_s"] = math.nan
    frame["new"] = np.arange(len(frame)) >= since.before.num_rows
    frame["ahead_s"] = (frame["time"] - now).dt.total_seconds()
    frame = frame[frame["new"] | (frame["ahead_s"] <= CLOCK_TOLERANCE.total_seconds())]
    idle = (frame["rows_in"] == 0) & ~(frame["duration_s"].abs() > 0)
    frame["missing_duration"] = frame["duration_s"].isna() & ~idle
    frame["marker_at"] = frame["time"].where(idle).astype(str)
    moves = frame["app"].isin(nodes) & (frame["query"] != HEARTBEAT)
    # each driver of an app has a higher generation; from node to node, only time shows the order
    frame = frame.assign(idle=idle, place=frame["app"].mask(moves), start=frame["generation"].mask(moves))
    frame = frame.sort_values(["batch_id", "start", "idle", "time"], kind="stable")
    frame["batch_rows"] = frame["rows_in"].mask(frame["idle"])
    by_query = frame.groupby(QUERY, dropna=False, sort=False)
    frame["batch_rows"] = by_query["batch_rows"].ffill()
    before = by_query[["time", "app", "generation", "batch_id", "source_end", "backlog_rows", "batch_rows"]].shift()
    step_s = (frame["time"] - before["time"]).dt.total_seconds()
    same_driver = (frame["generation"] == before["generation"]) & (frame["app"] == before["app"])
    frame["time_step_s"] = step_s
    frame["source_step_rows"] = (frame["source_end"] - before["source_end"]).where(same_driver)
    missing = frame["batch_id"] - before["batch_id"] > 1
    traffic = (before["backlog_rows"] > 0) | missing | (frame["source_step_rows"] > frame["rows_in"])
    paused_s = step_s - frame["duration_s"].fillna(0).clip(lower=0) - frame["trigger_s"].fillna(0).clip(lower=0)
    frame["silent_s"] = paused_s.where(same_driver & traffic)
    frame["unread_rows"] = _unread(frame, before).where(same_driver & (frame["rows_in"] == 0), 0)
    # keep the twin of a new row even if it was read before, or the new row would look unique
    twins = frame.groupby(BATCH_KEY, dropna=False, sort=False)["new"].transform("any")
    return frame[twins].drop(columns=["new", "idle", "place", "start", "batch_rows"])


def apps_frame(since: NewRows, now: datetime) -> pd.DataFrame:
    """Return the new rows of ``telemetry/apps`` with ``ahead_s`` (time after now)."""
    frame = _numbers(since.rows, [c for c in since.rows.column_names if c != "date"])
    if len(frame):
        frame["ahead_s"] = (frame["time"] - now).dt.total_seconds()
    return frame


def _unread(frame: pd.DataFrame, before: pd.DataFrame) -> pd.Series[float]:
    """Return rows that waited before and after a batch, or that came and neither wait nor were read.

    An estimated backlog may be empty, so it makes no batch suspicious. Nor is a batch without rows suspicious if it
    follows a batch with rows: Spark starts it at once to move the watermark, before the rows came that waited when it
    was counted.
    """
    import numpy as np

    backlog_before = before["backlog_rows"]
    counted = ~frame["idle"] & ~(before["batch_rows"] > 0)
    if "arrival_basis" in frame:
        counted &= frame["arrival_basis"] != ArrivalBasis.LISTED
    waited = np.minimum(backlog_before.fillna(0), frame["backlog_rows"].fillna(0)).where(counted, 0)
    growth = (frame["backlog_rows"] - backlog_before).fillna(0)
    vanished = (frame["source_step_rows"] - growth).fillna(0)
    return np.maximum(waited, vanished).clip(lower=0)


def _flat(part: pa.Table) -> pd.DataFrame:
    nested = {"durations_ms", "operators", "date"}
    frame = _numbers(part, [c for c in part.column_names if c not in nested])
    durations = part["durations_ms"].cast(pa.list_(pa.struct({"key": pa.string(), "value": pa.int64()})))
    frame["duration_s"] = _floats(pc.map_lookup(part["durations_ms"], "triggerExecution", "first")) / 1000.0
    frame["least_duration_ms"] = _least(durations, "value")
    for name in OPERATOR_MEASURES:
        frame[f"least_operator_{name}"] = _least(part["operators"], name)
    return frame


def _numbers(part: pa.Table, columns: list[str]) -> pd.DataFrame:
    """Return columns as pandas: null numbers become NaN, and infinite or NaN values -inf, which no range allows."""
    import pandas as pd

    frame = part.select(columns).to_pandas() if part.num_rows else pd.DataFrame(columns=columns)
    for name in columns:
        kind = part[name].type
        if pa.types.is_floating(kind) or pa.types.is_integer(kind):
            frame[name] = _floats(part[name])
    return frame


def _floats(numbers: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return numbers as floats: NaN if null, -inf if not finite."""
    import numpy as np

    known = ~numbers.is_null().to_numpy()
    values = numbers.to_numpy().astype("float64")
    return np.where(known & ~np.isfinite(values), -np.inf, values)


def _least(lists: pa.ChunkedArray, field: str) -> pd.Series[float]:
    """Return the smallest value of a field in each list of structs: NaN if none is known, -inf if one is not finite."""
    import pandas as pd

    values = pd.Series(_floats(pc.struct_field(pc.list_flatten(lists), field)))
    return values.groupby(pc.list_parent_indices(lists).to_numpy()).min().reindex(range(len(lists)))


def _short(kind: str) -> str:
    text = kind.strip('"')
    return text if len(text) <= 60 else text[:57] + "..."
