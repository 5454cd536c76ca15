"""Counts a source's rows and bytes per input stream and period of event time, in one pass of Spark.

Bytes are the rows' contents: the length of strings and of nested types as JSON, the size of every other type.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from millrace.lake.appended_files import appended_files, source_state
from millrace.lake.store import Lake
from millrace.model.errors import MillraceError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LOG = logging.getLogger(__name__)
TABLE = "telemetry/streams"
DONE = 2**62
"""Last number of the transaction of 0.2.0, whose id does not contain that of the source; a newer one continues it."""


@dataclass(frozen=True)
class Profile:
    """What to count.

    Attributes:
        pipeline: Name of the pipeline and of its app.
        source: Folder of the Delta source table.
        time_column: Column of event time.
        period_s: Length of a period of event time, seconds, >= 1.
        stream: Columns whose values together name an input stream, at least one.
    """

    pipeline: str
    source: Path
    time_column: str
    period_s: int
    stream: tuple[str, ...]


def run(spark: SparkSession, lake: Lake, profile: Profile, since: int = -1) -> int | None:
    """Count the rows appended since the last run and return the version reached; None if there is no new version.

    If rows of one period arrive in several runs, the table has several rows for it. Readers add them up. A source that
    was recreated is counted from its beginning. A warning says which rows could not be counted.

    Args:
        spark: A session with Delta.
        lake: Takes the counts, in one commit.
        profile: Source, columns and period to count.
        since: Version of the source after which the first run starts; later runs continue where the last one ended.

    Raises:
        MillraceError: If the source does not exist or lacks a column, or the lake cannot be written.
    """
    source, unnamed = source_state(profile.source), f"{profile.pipeline}/profile"
    newest, transaction = source.version, f"{unnamed}/{source.table_id}"
    counted, before = lake.committed(TABLE, transaction), lake.committed(TABLE, unnamed)
    if counted < 0 and before <= newest:
        counted = before
    reached = max(counted, since)
    if reached >= newest:
        return None
    appended = appended_files(profile.source, reached, newest)
    for problem in appended.problems:
        LOG.warning("%s: %s", profile.pipeline, problem)
    if appended.files:
        numbers = {transaction: newest} | ({unnamed: DONE} if 0 <= before < DONE else {})
        # even an empty commit records how far the source was read
        lake.append(TABLE, count(_read(spark, profile.source, appended.files), profile), numbers)
    return newest


def count(rows: DataFrame, profile: Profile) -> pa.Table:
    """Return what ``rows`` add to the table of streams. Rows without a time belong to no period.

    Raises:
        MillraceError: If a column is missing or the time column holds no times.
    """
    from pyspark.sql import functions as sf

    _check(rows, profile)
    second = sf.unix_seconds(sf.col(profile.time_column).cast("timestamp"))
    stream = sf.concat_ws("/", *(sf.col(c).cast("string") for c in profile.stream))
    counted = (
        rows.groupBy(sf.floor(second / profile.period_s).alias("period"), stream.alias("stream"))
        .agg(sf.count("*").alias("rows"), sf.sum(_size(rows)).alias("bytes"))
        .where("period is not null")
        .toArrow()
    )
    begin = pc.multiply(counted["period"].cast(pa.int64()), profile.period_s).cast(pa.timestamp("s", "UTC"))
    name = pa.repeat(profile.pipeline, len(counted))
    return pa.table(
        {
            "pipeline": name,
            "time": begin,
            "stream": counted["stream"],
            "app": name,
            "rows": counted["rows"],
            "bytes": counted["bytes"],
        }
    )


def _read(spark: SparkSession, source: Path, files: Sequence[Path]) -> DataFrame:
    schema = spark.read.format("delta").load(str(source)).schema
    return spark.read.schema(schema).option("basePath", str(source)).parquet(*map(str, files))


def _size(rows: DataFrame) -> Column:
    from pyspark.sql import functions as sf
    from pyspark.sql import types as st

    total = sf.lit(0).cast("long")
    for column in rows.schema:
        kind = column.dataType
        if isinstance(kind, st.StringType | st.BinaryType):
            size = sf.coalesce(sf.octet_length(column.name), sf.lit(0))
        elif isinstance(kind, st.ArrayType | st.MapType | st.StructType):
            size = sf.coalesce(sf.octet_length(sf.to_json(column.name)), sf.lit(0))
        else:
            size = sf.lit(4 if kind.jsonValue() in ("integer", "float", "date") else 8)
        total = total + size
    return total


def _check(rows: DataFrame, profile: Profile) -> None:
    from pyspark.sql import types as st

    for key, columns in {"time_column": (profile.time_column,), "stream": profile.stream}.items():
        for column in columns:
            if column not in rows.columns:
                raise MillraceError(key, column, ", ".join(rows.columns), "Name a column of the source.")
    kind = rows.schema[profile.time_column].dataType
    if not isinstance(kind, st.TimestampType | st.TimestampNTZType | st.DateType):
        value = f"{profile.time_column}: {kind.simpleString()}"
        raise MillraceError("time_column", value, "a timestamp or date", "Name a timestamp or date column.")
