"""Streams of a source, counted by period."""

from __future__ import annotations

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
