"""The flights of 2013 by key group and day: rows of each group, and rows between the groups of two keys.

A key group is a slice of Spark's hash of a key, ``pmod(xxhash64(key), GROUPS)``. Spark runs this file to hash the keys
of all flights; the rows of each group and day are counted here.
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
from millrace.environment.spark_env import driver_submit_conf, environment, spark_submit
from millrace.local.feeds.nycflights import DAYS, FIRST_DAY, data_folder, flights
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
"""The keys that send rows to each key. If both operators have the same key, each group sends rows only to its
counterpart.
"""
TABLE, HASHED, WORDS = "flights.parquet", "groups.parquet", "words.txt"


@dataclass(frozen=True)
class Measured:
    """Rows by day.

    Attributes:
        groups: Rows of the groups of each key, shape (GROUPS, DAYS).
        flows: Rows between the groups of two keys: sender and receiver, shape (P,), and rows, shape (P, DAYS).
    """

    groups: Mapping[str, Floats]
    flows: Mapping[tuple[str, str], tuple[Ints, Ints, Floats]]


@dataclass(frozen=True)
class Hashing:
    """A running Spark job.

    Attributes:
        scratch: Its folder.
        job: Its process.
    """

    scratch: tempfile.TemporaryDirectory[str]
    job: subprocess.Popen[bytes]


@cache
def begin() -> Hashing:
    """Start hashing, once. It may run on another processor while something else is measured here."""
    scratch = tempfile.TemporaryDirectory(prefix="millrace-flights-")
    folder = Path(scratch.name)
    _table().to_parquet(folder / TABLE)
    conf = conf_words({**driver_submit_conf(), "spark.ui.enabled": "false"})
    command = [str(spark_submit()), "--master", "local[2]", "--driver-memory", "1g", *conf, __file__, str(folder)]
    with (folder / WORDS).open("wb") as words:  # output of Python in the driver; the other stream is Spark's log
        job = subprocess.Popen(command, env={**os.environ, **environment()}, stdout=words, stderr=subprocess.DEVNULL)
    return Hashing(scratch, job)


@cache
def measured() -> Measured:
    """Return the traffic of the flights; hash the keys if that has not started yet.

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
    """Return senders and receivers, shape (P,) each, and the rows between them on each day, shape (P, DAYS)."""
    pairs, pair = np.unique(producer * GROUPS + consumer, return_inverse=True)
    return pairs // GROUPS, pairs % GROUPS, _by_day(pair, len(pairs), day)


def _by_day(of: Ints, count: int, day: Ints) -> Floats:
    """Return the rows of each item on each day, shape (count, DAYS)."""
    return np.bincount(of * DAYS + day, minlength=count * DAYS).reshape(count, DAYS).astype(float)


def _table() -> pd.DataFrame:
    """Return the day of each flight that arrived, and its keys."""
    table = flights()
    table = table[table["arr_delay"] != "NA"].reset_index(drop=True)
    hour = table["flight_date"] + " " + table["departed"].dt.hour.astype(str)
    # the last flights of the year depart after midnight
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
    """Write the day of each flight with its key groups, in a separate session."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sf

    spark = SparkSession.builder.appName("flights").getOrCreate()
    groups = (sf.pmod(sf.xxhash64(*columns), sf.lit(GROUPS)).cast("int").alias(key) for key, columns in KEYS.items())
    spark.read.parquet(str(folder / TABLE)).select("day", *groups).write.parquet(str(folder / HASHED))
    spark.stop()


if __name__ == "__main__":
    hash_keys(Path(sys.argv[1]))
