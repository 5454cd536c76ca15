"""The flights of 2013 by key group, day by day: rows of each group, and between the groups of two keys.

A key group is a slice of Spark's hash of a key, ``pmod(xxhash64(key), GROUPS)``. Spark, started with this file, hashes
the keys of all flights; what lies in which group on which day is counted here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.simulation.placement import Floats, Ints
from millrace.local.feeds.nycflights import DAYS, FIRST_DAY, data_folder, flights
from millrace.local.stack.spark_env import driver_submit_conf, environment, spark_submit
from millrace.model.errors import MillraceError
from millrace.model.submit_options import conf_words

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
TABLE, HASHED, WORDS = "flights.parquet", "groups.parquet", "words.txt"


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
class Hashing:
    """Spark at work.

    Attributes:
        scratch: Its folder.
        job: Its process.
    """

    scratch: tempfile.TemporaryDirectory[str]
    job: subprocess.Popen[bytes]


@cache
def begin() -> Hashing:
    """Start to hash, once: that may go on on another processor while something else is measured here."""
    scratch = tempfile.TemporaryDirectory(prefix="millrace-flights-")
    folder = Path(scratch.name)
    _table().to_parquet(folder / TABLE)
    conf = conf_words({**driver_submit_conf(), "spark.ui.enabled": "false"})
    command = [spark_submit(), "--master", "local[2]", "--driver-memory", "1g", *conf, __file__, folder]
    with (folder / WORDS).open("wb") as words:  # what Python says in the driver; the other stream is Spark's log
        job = subprocess.Popen(command, env={**os.environ, **environment()}, stdout=words, stderr=subprocess.DEVNULL)
    return Hashing(scratch, job)


@cache
def measured() -> Measured:
    """Return the flights' traffic; hashes the keys if that has not been begun.

    Raises:
        MillraceError: If Spark fails.
    """
    hashing = begin()
    with hashing.scratch as scratch:
        if hashing.job.wait():
            told = ((Path(scratch) / WORDS).read_text(errors="replace").strip().splitlines() or ["nothing"])[-1]
            raise MillraceError("spark-submit", told, "a job that ends well", "Run ./millrace setup, then try again.")
        rows = pd.read_parquet(Path(scratch) / HASHED)
    day, group = rows["day"].to_numpy(), {key: rows[key].to_numpy(dtype=np.intp) for key in KEYS}
    return Measured(
        {key: _by_day(group[key], GROUPS, day) for key in KEYS},
        {(a, b): _flow(group[a], group[b], day) for b, before in AFTER.items() for a in before},
    )


def _flow(producer: Ints, consumer: Ints, day: Ints) -> tuple[Ints, Ints, Floats]:
    """Return who passes rows to whom, shape (P,) each, and how many on each day, shape (P, DAYS)."""
    pairs, pair = np.unique(producer * GROUPS + consumer, return_inverse=True)
    return pairs // GROUPS, pairs % GROUPS, _by_day(pair, len(pairs), day)


def _by_day(of: Ints, count: int, day: Ints) -> Floats:
    """Return how many rows each of some things has on each day, shape (count, DAYS)."""
    return np.bincount(of * DAYS + day, minlength=count * DAYS).reshape(count, DAYS).astype(float)


def _table() -> pd.DataFrame:
    """Return the day of each flight that arrived, and what it is keyed by."""
    table = flights()
    table = table[table["arr_delay"] != "NA"].reset_index(drop=True)
    hour = table["flight_date"] + " " + table["departed"].dt.hour.astype(str)
    # the last flights of the year leave after midnight
    day = np.minimum((table["departed"] - FIRST_DAY) // pd.Timedelta(days=1), DAYS - 1)
    table = table.assign(row=table.index.astype(str), hour=hour, score=_scores(table), day=day)
    return table[["day", *dict.fromkeys(c for key in KEYS.values() for c in key)]]


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


def hash_keys(folder: Path) -> None:
    """Write the key group of each flight and key beside its day, in a session of its own."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sf

    spark = SparkSession.builder.appName("flights").getOrCreate()
    groups = (sf.pmod(sf.xxhash64(*columns), sf.lit(GROUPS)).cast("int").alias(key) for key, columns in KEYS.items())
    spark.read.parquet(str(folder / TABLE)).select("day", *groups).write.parquet(str(folder / HASHED))
    spark.stop()


if __name__ == "__main__":
    hash_keys(Path(sys.argv[1]))
