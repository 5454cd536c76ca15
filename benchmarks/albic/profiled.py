"""The flights of 2013 as the batch job ``profile`` measures them: rows of key groups and between them, day by day.

The job is submitted as ``profile_<pipeline>`` submits it; nothing is counted here.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from deltalake import write_deltalake

from benchmarks.simulation.placement import Floats, Ints
from include.lake.store import Lake
from include.local.feeds.nycflights import DAYS, FIRST_DAY, data_folder, flights
from include.local.stack.home import REPO
from include.local.stack.spark_env import driver_submit_conf, environment, spark_submit
from include.model.errors import MillraceError
from include.model.submit_options import conf_words

GROUPS = 100
KEYS: Mapping[str, Sequence[str]] = {
    "row": ("row",),
    "airplane": ("tailnum",),
    "flight": ("flight",),
    "hour": ("origin", "hour"),
    "route": ("origin", "dest"),
    "route_score": ("origin", "dest", "score"),
}
"""Columns of each key."""
AFTER: Mapping[str, Sequence[str]] = {
    "airplane": ("row",),
    "flight": ("airplane",),
    "route": ("airplane", "hour"),
    "route_score": ("route",),
}
"""Keys from which rows come to a key. Between operators of the same key each group passes all to its like."""
DAY_S = 86_400
ERRORS = "errors.txt"


@dataclass(frozen=True)
class Measured:
    """Rows by day.

    Attributes:
        groups: Of the groups of each key, shape (GROUPS, DAYS).
        flows: Between the groups of two keys: who emits and who receives, shape (P,), and rows, shape (P, DAYS).
    """

    groups: Mapping[str, Floats]
    flows: Mapping[tuple[str, str], tuple[Ints, Ints, Floats]]


@dataclass(frozen=True)
class Counting:
    """The job at work.

    Attributes:
        scratch: Its folder.
        job: Its process.
    """

    scratch: tempfile.TemporaryDirectory[str]
    job: subprocess.Popen[bytes]


@cache
def begin() -> Counting:
    """Start the job, once: it may count on another processor while something else is measured here."""
    scratch = tempfile.TemporaryDirectory(prefix="millrace-flights-")
    lake, source = Path(scratch.name) / "lake", Path(scratch.name) / "source"
    write_deltalake(source, pa.Table.from_pandas(_table(), preserve_index=False))
    command, env = _command(lake, source), {**os.environ, **environment()}
    with (Path(scratch.name) / ERRORS).open("wb") as errors:
        return Counting(scratch, subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=errors))


@cache
def measured() -> Measured:
    """Return the flights' traffic; starts the job if that has not been done.

    Raises:
        MillraceError: If the job fails.
    """
    counting = begin()
    with counting.scratch as scratch:
        if counting.job.wait():
            told = ((Path(scratch) / ERRORS).read_text(errors="replace").strip().splitlines() or ["nothing"])[-1]
            raise MillraceError("profile", told, "a job that ends well", "Run ./millrace setup, then try again.")
        lake = Lake(Path(scratch) / "lake")
        groups = lake.query("select operator, key_group, time, rows_in as rows from key_groups", "telemetry/key_groups")
        flows = lake.query(
            "select from_operator, from_group, to_operator, to_group, time, rows from flows", "telemetry/flows"
        )
    return Measured(_groups(groups.to_pandas()), _flows(flows.to_pandas()))


def _command(lake: Path, source: Path) -> list[str]:
    operators = [{"name": k, "key": c, "key_groups": GROUPS, "after": AFTER.get(k, ())} for k, c in KEYS.items()]
    options = {"pipeline": "flights", "lake": lake, "source": source, "time-column": "departed", "period-s": DAY_S}
    conf = {**driver_submit_conf(), "spark.ui.enabled": "false"}
    return [
        *(str(spark_submit()), "--master", "local[2]", "--driver-memory", "1g"),
        *conf_words(conf),
        str(REPO / "jobs" / "profile_source.py"),
        *(str(word) for key, value in options.items() for word in (f"--{key}", value)),
        *("--operators", json.dumps(operators)),
    ]


def _table() -> pd.DataFrame:
    """Return the flights that arrived, with what they are keyed by."""
    table = flights()
    table = table[table["arr_delay"] != "NA"].reset_index(drop=True)
    hour = table["flight_date"] + " " + table["departed"].dt.hour.astype(str)
    columns = {"row": table.index.astype(str), "hour": hour, "score": _scores(table)}
    table = table.assign(**columns, departed=table["departed"].dt.tz_localize("UTC"))
    return table[["departed", *dict.fromkeys(c for key in KEYS.values() for c in key)]]


def _scores(table: pd.DataFrame) -> pd.Series:
    """Return the rain score of each flight in tens, 0..9: the rank of its hour's precipitation among wet hours."""
    weather = pd.read_csv(data_folder() / "weather.csv", usecols=["origin", "year", "month", "day", "hour", "precip"])
    weather = weather.drop_duplicates(["origin", "year", "month", "day", "hour"])
    wet = weather["precip"] > 0
    weather["score"] = 0
    weather.loc[wet, "score"] = np.ceil(weather.loc[wet, "precip"].rank(pct=True) * 9).astype(int)
    moment = pd.to_datetime(weather[["year", "month", "day"]]) + pd.to_timedelta(weather["hour"], unit="h")
    scores = pd.Series(weather["score"].to_numpy(), index=weather["origin"] + moment.astype(str))
    asked = table["origin"] + table["departed"].dt.floor("h").astype(str)
    return asked.map(scores).fillna(0).astype(int)


def _groups(rows: pd.DataFrame) -> dict[str, Floats]:
    return {
        str(key): _by_day(of_key["key_group"].to_numpy(), GROUPS, of_key) for key, of_key in rows.groupby("operator")
    }


def _flows(rows: pd.DataFrame) -> dict[tuple[str, str], tuple[Ints, Ints, Floats]]:
    found = {}
    for (first, second), of_edge in rows.groupby(["from_operator", "to_operator"]):
        pairs, pair = np.unique(of_edge["from_group"] * GROUPS + of_edge["to_group"], return_inverse=True)
        found[str(first), str(second)] = (
            np.asarray(pairs // GROUPS, dtype=np.intp),
            np.asarray(pairs % GROUPS, dtype=np.intp),
            _by_day(pair, len(pairs), of_edge),
        )
    return found


def _by_day(of: Any, count: int, rows: pd.DataFrame) -> Floats:
    """Return how many rows each of some things has on each day, shape (count, DAYS)."""
    first = FIRST_DAY.tz_localize("UTC")
    # the last flights of the year leave after midnight
    day = np.minimum((rows["time"] - first) // pd.Timedelta(days=1), DAYS - 1).to_numpy(dtype=np.intp)
    found = np.bincount(np.asarray(of, dtype=np.intp) * DAYS + day, rows["rows"].to_numpy(), count * DAYS)
    return np.asarray(found.reshape(count, DAYS), dtype=float)
