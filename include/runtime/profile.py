"""What a source is made of: key groups, flows between them and streams, counted by Spark in one pass.

A key group is a hash slice of an operator's keys: ``pmod(xxhash64(key), key_groups)``. Bytes are the rows' contents:
the length of texts, the size of every other type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from include.lake.source_tables import appended_files, newest_version
from include.lake.store import Lake
from include.model.errors import MillraceError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TABLES = ("telemetry/key_groups", "telemetry/flows", "telemetry/streams")


@dataclass(frozen=True)
class Operator:
    """A keyed operator.

    Attributes:
        name: Its name.
        key: Its key columns.
        key_groups: Number of its key groups, >= 1.
        after: Names of the operators that pass it rows.
    """

    name: str
    key: tuple[str, ...]
    key_groups: int
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Profile:
    """What to measure.

    Attributes:
        pipeline: Name of the pipeline; its app has the same.
        source: Folder of the Delta source table.
        time_column: Column of event time.
        period_s: Length of a period of event time, seconds, >= 1.
        operators: Keyed operators.
        stream: Columns whose values together name an input stream; may be empty.
    """

    pipeline: str
    source: Path
    time_column: str
    period_s: int
    operators: tuple[Operator, ...]
    stream: tuple[str, ...]


def ranges(done: Mapping[str, int], since: int, through: int) -> list[tuple[int, int]]:
    """Return the ranges (after, through] of versions still to be profiled, in their order.

    A run that died between two tables left them at different versions. Cutting there lets each range be skipped as a
    whole by the tables that have it, so that nothing is counted twice.

    Args:
        done: Version each table was profiled through, -1 for none.
        since: Version after which the first profile begins.
        through: Version to profile through.
    """
    cuts = sorted({max(v, since) for v in done.values()} | {through})
    return [(a, b) for a, b in pairwise(cuts) if b <= through]


def run(spark: SparkSession, lake: Lake, profile: Profile, since: int = -1, through: int | None = None) -> int | None:
    """Profile what was appended since the last run, and return the version reached; None if nothing was new.

    Rows of one period that arrive in several runs make several rows of it: readers add them up.

    Args:
        spark: A session with Delta.
        lake: Where the results go, each table's in one commit a range.
        profile: What to measure.
        since: Version of the source after which the first run begins; later runs go on where the last one ended.
        through: Version to profile through; by default the newest.

    Raises:
        MillraceError: If the source is not there, lacks a column, or the lake cannot be written.
    """
    newest = newest_version(profile.source)
    transaction = f"{profile.pipeline}/profile"
    done = {table: lake.committed(table, transaction) for table in TABLES}
    reached = None
    for after, end in ranges(done, since, newest if through is None else min(through, newest)):
        files = appended_files(profile.source, after, end)
        if files:
            counted = measure(_read(spark, profile.source, files), profile)
            for table in TABLES:
                # an empty commit too says how far the source was read
                lake.append(table, counted.get(table, []), {transaction: end})
        reached = end
    return reached


def measure(rows: DataFrame, profile: Profile) -> dict[str, pa.Table]:
    """Return what ``rows`` of the source add to each table; tables to which nothing can be added are left out.

    Raises:
        MillraceError: If a column is missing or the time column holds no times.
    """
    from pyspark.sql import functions as sf

    _check(rows, profile)
    counts = list(_counts(profile))
    if not counts:
        return {}
    columns = ["period", *(_group(o.name) for o in profile.operators), *([STREAM] if profile.stream else [])]
    keyed = rows.select(
        (sf.floor(sf.unix_seconds(sf.col(profile.time_column).cast("timestamp")) / profile.period_s)).alias("period"),
        *(
            sf.pmod(sf.xxhash64(*o.key), sf.lit(o.key_groups)).cast("int").alias(_group(o.name))
            for o in profile.operators
        ),
        sf.concat_ws("/", *(sf.col(c).cast("string") for c in profile.stream)).alias(STREAM),
        _size(rows).alias("bytes"),
    ).where("period is not null")
    sets = [[sf.col(c) for c in count.columns] for count in counts]
    counted = (
        keyed.groupingSets(sets, *map(sf.col, columns))
        .agg(sf.count("*").alias("rows"), sf.sum("bytes").alias("bytes"), sf.grouping_id().alias("set"))
        .toArrow()
    )
    parts: dict[str, list[pa.Table]] = {}
    for count in counts:
        of_it = counted.filter(pc.equal(counted["set"], _grouping_id(columns, count.columns)))
        parts.setdefault(count.table, []).append(_as_rows(count, of_it, profile))
    return {table: pa.concat_tables(of_table) for table, of_table in parts.items()}


STREAM = "stream"


@dataclass(frozen=True)
class _Count:
    """One way to group the rows.

    Attributes:
        table: Where its counts go.
        by: What is grouped by beside the period, by the name that the table has for it.
        fixed: Columns of the table that are the same for all of its rows.
        rows: What the table calls the number of rows.
        size: What it calls their bytes.
    """

    table: str
    by: Mapping[str, str]
    fixed: Mapping[str, str]
    rows: str = "rows"
    size: str = "bytes"

    @property
    def columns(self) -> tuple[str, ...]:
        """All that is grouped by."""
        return ("period", *self.by.values())


def _counts(profile: Profile) -> Iterator[_Count]:
    app = {"app": profile.pipeline}
    for o in profile.operators:
        group = {"key_group": _group(o.name)}
        yield _Count("telemetry/key_groups", group, {**app, "operator": o.name}, "rows_in", "bytes_in")
        for first in o.after:
            ends = {"from_group": _group(first), "to_group": _group(o.name)}
            yield _Count("telemetry/flows", ends, {"from_operator": first, "to_operator": o.name})
    if profile.stream:
        yield _Count("telemetry/streams", {STREAM: STREAM}, app)


def _group(operator: str) -> str:
    return f"group of {operator}"


def _as_rows(count: _Count, rows: pa.Table, profile: Profile) -> pa.Table:
    """Return counts as rows of their table."""
    begin = pc.multiply(rows["period"].cast(pa.int64()), profile.period_s).cast(pa.timestamp("s", "UTC"))
    fixed = {"pipeline": profile.pipeline, **count.fixed}
    return pa.table(
        {
            "time": begin,
            **{name: pa.repeat(value, len(rows)) for name, value in fixed.items()},
            **{name: rows[column] for name, column in count.by.items()},
            count.rows: rows["rows"],
            count.size: rows["bytes"],
        }
    )


def _grouping_id(columns: Sequence[str], kept: Sequence[str]) -> int:
    """Return Spark's grouping id: a bit for each column, first column highest, set where it is not grouped by."""
    return sum(1 << (len(columns) - 1 - i) for i, c in enumerate(columns) if c not in kept)


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

    wanted = {"time_column": (profile.time_column,), "stream": profile.stream}
    wanted |= {f"operators.{o.name}.key": o.key for o in profile.operators}
    for key, columns in wanted.items():
        for column in columns:
            if column not in rows.columns:
                raise MillraceError(key, column, ", ".join(rows.columns), "Name a column of the source.")
    kind = rows.schema[profile.time_column].dataType
    if not isinstance(kind, st.TimestampType | st.TimestampNTZType | st.DateType):
        value = f"{profile.time_column}: {kind.simpleString()}"
        raise MillraceError("time_column", value, "a timestamp or date", "Name a column of times.")
