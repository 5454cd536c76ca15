"""Streams of a source, counted by period."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from millrace.lake.source_tables import SourceTable
from millrace.lake.store import Lake
from millrace.model.errors import MillraceError
from millrace.runtime.profile import Profile, run

pytestmark = pytest.mark.spark
SCHEMA = pa.schema(
    [("at", pa.timestamp("us", "UTC")), ("plane", pa.string()), ("origin", pa.string()), ("n", pa.int32())]
)
START = datetime(2013, 1, 1, tzinfo=UTC)
PERIOD_S = 600


class Source:
    def __init__(self, path: Path) -> None:
        self.path, self.table, self.rows = path, SourceTable(path, SCHEMA, "test"), []

    def append(self, n: int, **same: Any) -> None:
        base = len(self.rows)
        new = [
            {
                "at": START + timedelta(seconds=30 * i),
                "plane": f"N{i % 11}" if i % 5 else None,
                "origin": ("JFK", "EWR")[i % 2],
                "n": i,
            }
            | same
            for i in range(base, base + n)
        ]
        self.table.append(pa.Table.from_pylist(new, SCHEMA), 2, "feed", base)
        self.rows += new


@pytest.fixture
def source(tmp_path: Path) -> Source:
    made = Source(tmp_path / "source")
    made.append(50)
    made.append(30)
    return made


def profile(source: Source, **changes: Any) -> Profile:
    return Profile("p", source.path, **({"time_column": "at", "period_s": PERIOD_S, "stream": ("origin",)} | changes))


def counted(lake: Lake) -> dict[tuple[datetime, str], tuple[int, int]]:
    """Rows and bytes by period and stream."""
    sums = lake.rows(
        "select time, stream, sum(rows) as rows, sum(bytes) as bytes from streams group by time, stream",
        "telemetry/streams",
    )
    return {(r["time"], r["stream"]): (r["rows"], r["bytes"]) for r in sums}


def expected(rows: list[dict[str, Any]]) -> dict[tuple[datetime, str], tuple[int, int]]:
    """The same of rows with a time, in plain Python."""
    count: Counter[tuple[datetime, str]] = Counter()
    size: Counter[tuple[datetime, str]] = Counter()
    for row in rows:
        if row["at"] is not None:
            begin = START + timedelta(seconds=(row["at"] - START).total_seconds() // PERIOD_S * PERIOD_S)
            count[begin, row["origin"]] += 1
            size[begin, row["origin"]] += len(row["plane"] or "") + len(row["origin"]) + 8 + 4
    return {key: (count[key], size[key]) for key in count}


def test_run_when_source_grows_then_counts_only_new_versions(spark: Any, tmp_path: Path, source: Source) -> None:
    lake = Lake(tmp_path / "lake")
    assert run(spark, lake, profile(source)) == DeltaTable(source.path).version()
    assert counted(lake) == expected(source.rows)
    assert run(spark, lake, profile(source)) is None
    source.append(20)
    DeltaTable(source.path).optimize.compact()  # moves rows, appends none
    assert run(spark, lake, profile(source)) == DeltaTable(source.path).version()
    assert counted(lake) == expected(source.rows)
    assert {r["app"] for r in lake.rows("select app from streams where pipeline = 'p'", "telemetry/streams")} == {"p"}


def test_first_run_counts_a_source_that_was_compacted_and_vacuumed(spark: Any, tmp_path: Path, source: Source) -> None:
    lake = Lake(tmp_path / "lake")
    tidy(source)
    assert (source.path / "_delta_log" / f"{0:020}.json").exists()
    run(spark, lake, profile(source))
    assert counted(lake) == expected(source.rows)


def test_run_warns_of_rows_that_were_compacted_with_counted_ones_and_deleted(
    spark: Any, tmp_path: Path, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    lake = Lake(tmp_path / "lake")
    run(spark, lake, profile(source))
    before = counted(lake)
    source.append(20)
    tidy(source)
    source.table.refresh()
    source.append(10)
    assert run(spark, lake, profile(source)) == DeltaTable(source.path).version()
    assert "p: Rows of 2 files compacted with older rows" in caplog.text
    added = Counter({key: counts[0] for key, counts in counted(lake).items()})
    added.subtract({key: counts[0] for key, counts in before.items()})
    assert added.total() == 10
    assert run(spark, lake, profile(source)) is None


def test_run_counts_a_recreated_source_from_its_beginning(spark: Any, tmp_path: Path, source: Source) -> None:
    lake = Lake(tmp_path / "lake")
    run(spark, lake, profile(source))
    before = counted(lake)
    again = recreated(spark, source)
    again.append(7)
    assert run(spark, lake, profile(again)) == 1
    total = sum(rows for rows, _ in counted(lake).values())
    assert total == sum(rows for rows, _ in before.values()) + 7
    assert run(spark, lake, profile(again)) is None


def test_run_continues_where_a_version_without_the_sources_id_ended(spark: Any, tmp_path: Path, source: Source) -> None:
    lake = Lake(tmp_path / "lake")
    reached = DeltaTable(source.path).version()
    lake.append("telemetry/streams", [], {"p/profile": reached})
    assert run(spark, lake, profile(source)) is None
    source.append(20)
    assert run(spark, lake, profile(source)) == reached + 1
    assert counted(lake) == expected(source.rows[80:])
    again = recreated(spark, source)
    for _ in range(reached + 1):
        again.append(3)
    assert run(spark, lake, profile(again)) == reached + 1, "the old number is no number of this table"
    total = sum(rows for rows, _ in counted(lake).values())
    assert total == 20 + 3 * (reached + 1)


def recreated(spark: Any, source: Source) -> Source:
    shutil.rmtree(source.path)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # each job has a session of its own
    return Source(source.path)


def tidy(source: Source) -> None:
    table = DeltaTable(source.path)
    table.optimize.compact()
    assert table.vacuum(0, dry_run=False, enforce_retention_duration=False)


def test_run_leaves_out_rows_that_existed_before(spark: Any, tmp_path: Path, source: Source) -> None:
    lake = Lake(tmp_path / "lake")
    since = DeltaTable(source.path).version()
    assert run(spark, lake, profile(source), since) is None
    source.append(20)
    assert run(spark, lake, profile(source), since) == since + 1
    assert counted(lake) == expected(source.rows[80:])


def test_rows_without_a_time_belong_to_no_period(spark: Any, tmp_path: Path, source: Source) -> None:
    lake = Lake(tmp_path / "lake")
    source.append(7, at=None)
    run(spark, lake, profile(source))
    assert counted(lake) == expected(source.rows)


def test_stream_of_several_columns_is_named_after_all(spark: Any, tmp_path: Path, source: Source) -> None:
    lake = Lake(tmp_path / "lake")
    run(spark, lake, profile(source, stream=("origin", "n")))
    assert {stream for _, stream in counted(lake)} == {f"{r['origin']}/{r['n']}" for r in source.rows}


def test_run_when_input_is_bad_then_error_names_it(spark: Any, tmp_path: Path, source: Source) -> None:
    lake = Lake(tmp_path / "lake")
    for changes, key in (
        ({"time_column": "n"}, "time_column"),
        ({"time_column": "nope"}, "time_column"),
        ({"stream": ("nope",)}, "stream"),
    ):
        with pytest.raises(MillraceError) as caught:
            run(spark, lake, profile(source, **changes))
        assert caught.value.key == key
    with pytest.raises(MillraceError, match="source"):
        run(spark, lake, Profile("p", tmp_path / "nothing", "at", PERIOD_S, ("origin",)))
