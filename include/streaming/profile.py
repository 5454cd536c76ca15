"""What a source is made of: key groups, flows between them and streams, counted by Spark in one pass.

A key group is a hash slice of an operator's keys: ``pmod(xxhash64(key), key_groups)``. Bytes are the rows' contents:
the length of texts, the size of every other type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from include.contracts.errors import MillraceError
from include.lake.appended import appended, committed, newest_version
from include.lake.store import Lake

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TABLES = ("telemetry/key_groups", "telemetry/flows", "telemetry/streams")
Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Operator:
    """A keyed operator: its name, key columns and number of key groups (>= 1)."""

    name: str
    key: tuple[str, ...]
    key_groups: int


@dataclass(frozen=True)
class Profile:
    """What to measure.

    Attributes:
        pipeline: Name of the pipeline; its app has the same.
        source: Folder of the Delta source table.
        time_column: Column of event time.
        period_s: Length of a period of event time, seconds, >= 1.
        operators: Keyed operators in the order in which rows pass them.
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
    done = {table: committed(lake, table, transaction) for table in TABLES}
    reached = None
    for after, end in ranges(done, since, newest if through is None else min(through, newest)):
        found = appended(profile.source, after, end)
        if found.files:
            counted = measure(_read(spark, profile.source, found.files), profile)
            for table in TABLES:
                lake.append(table, counted[table], {transaction: end})
        reached = end
    return reached


def measure(rows: DataFrame, profile: Profile) -> Rows:
    """Return the rows of each table that ``rows`` of the source make.

    Raises:
        MillraceError: If a column is missing or the time column holds no times.
    """
    from pyspark.sql import functions as sf

    _check(rows, profile)
    groups = [f"g{i}" for i in range(len(profile.operators))]
    streams = ["stream"] if profile.stream else []
    keyed = rows.select(
        (sf.floor(sf.unix_seconds(sf.col(profile.time_column).cast("timestamp")) / profile.period_s)).alias("period"),
        *(
            sf.pmod(sf.xxhash64(*o.key), sf.lit(o.key_groups)).cast("int").alias(g)
            for g, o in zip(groups, profile.operators, strict=True)
        ),
        *(sf.concat_ws("/", *(sf.col(c).cast("string") for c in profile.stream)).alias(s) for s in streams),
        _size(rows).alias("bytes"),
    ).where("period is not null")
    sets = [(g,) for g in groups] + list(pairwise(groups)) + [(s,) for s in streams]
    if not sets:
        return {table: [] for table in TABLES}
    columns = ["period", *groups, *streams]
    by = [[sf.col(c) for c in ("period", *names)] for names in sets]
    counted = keyed.groupingSets(by, *columns).agg(
        sf.count("*").alias("rows"), sf.sum("bytes").alias("size"), sf.grouping_id().alias("set")
    )
    kinds = {_grouping_id(columns, ("period", *names)): names for names in sets}
    result: Rows = {table: [] for table in TABLES}
    for row in counted.toArrow().to_pylist():
        table, told = _row(kinds[row["set"]], groups, row, profile)
        result[table].append(told)
    return result


def _row(
    names: Sequence[str], groups: list[str], row: Mapping[str, Any], profile: Profile
) -> tuple[str, dict[str, Any]]:
    begin = datetime.fromtimestamp(row["period"] * profile.period_s, UTC)
    common = {"pipeline": profile.pipeline, "time": begin}
    if names[0] == "stream":
        told = {"stream": row["stream"], "app": profile.pipeline, "rows": row["rows"], "bytes": row["size"]}
        return "telemetry/streams", common | told
    operators = [profile.operators[groups.index(n)].name for n in names]
    if len(names) == 1:
        told = {"operator": operators[0], "key_group": row[names[0]], "app": profile.pipeline}
        return "telemetry/key_groups", common | told | {"rows_in": row["rows"], "bytes_in": row["size"]}
    pair = {"from_operator": operators[0], "from_group": row[names[0]]}
    pair |= {"to_operator": operators[1], "to_group": row[names[1]]}
    return "telemetry/flows", common | pair | {"rows": row["rows"], "bytes": row["size"]}


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
        found = f"{profile.time_column}: {kind.simpleString()}"
        raise MillraceError("time_column", found, "a timestamp or date", "Name a column of times.")
