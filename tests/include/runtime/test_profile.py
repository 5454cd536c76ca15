"""Key groups, flows and streams of a source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from include.lake.source_tables import SourceTable
from include.lake.store import Lake
from include.model.errors import MillraceError
from include.runtime.profile import TABLES, Operator, Profile, ranges, run

SCHEMA = pa.schema(
    [("at", pa.timestamp("us", "UTC")), ("plane", pa.string()), ("origin", pa.string()), ("n", pa.int32())]
)
START = datetime(2013, 1, 1, tzinfo=UTC)
OPERATORS = (Operator("plane", ("plane",), 8), Operator("route", ("origin", "plane"), 4, after=("plane",)))


@given(
    done=st.dictionaries(st.sampled_from(TABLES), st.integers(-1, 9), min_size=3),
    since=st.integers(-1, 9),
    through=st.integers(-1, 12),
)
def test_ranges_bring_each_version_to_each_table_once(done: dict[str, int], since: int, through: int) -> None:
    reached = {table: [v for v in range(max(since, -1) + 1, n + 1)] for table, n in done.items()}
    for after, end in ranges(done, since, through):
        for table, n in done.items():
            if n < end:  # what the transaction id lets through
                assert after >= n, "a part of the range is there already"
                reached[table] += range(after + 1, end + 1)
    for table, n in done.items():
        assert reached[table] == list(range(since + 1, max(n, through) + 1))


class Source:
    def __init__(self, path: Path) -> None:
        self.path, self.table, self.rows = path, SourceTable(path, SCHEMA, "test"), []

    def append(self, n: int) -> None:
        base = len(self.rows)
        new = [
            {"at": START + timedelta(seconds=30 * i), "plane": f"N{i % 11}" if i % 5 else None, "origin": "JFK", "n": i}
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
    settings = {"time_column": "at", "period_s": 600, "operators": OPERATORS, "stream": ("origin",)}
    return Profile("p", source.path, **(settings | changes))


def total(lake: Lake, table: str, column: str) -> int:
    name = table.rsplit("/", 1)[-1]
    return lake.rows(f"select coalesce(sum({column}), 0) as n from {name}", table)[0]["n"]


def assert_each_row_once(lake: Lake, rows: list[dict]) -> None:
    assert total(lake, "telemetry/key_groups", "rows_in") == len(rows) * len(OPERATORS)
    assert total(lake, "telemetry/flows", "rows") == total(lake, "telemetry/streams", "rows") == len(rows)


@pytest.mark.spark
def test_run_when_source_grows_then_only_new_versions_are_counted(spark: Any, tmp_path: Path, source: Source) -> None:
    lake = Lake(tmp_path / "lake")
    assert run(spark, lake, profile(source)) == DeltaTable(source.path).version()
    assert_each_row_once(lake, source.rows)
    assert run(spark, lake, profile(source)) is None
    source.append(20)
    DeltaTable(source.path).optimize.compact()  # moves rows, appends none
    assert run(spark, lake, profile(source)) == DeltaTable(source.path).version()
    assert_each_row_once(lake, source.rows)

    periods = Counter(START + timedelta(seconds=600 * (30 * r["n"] // 600)) for r in source.rows)
    sums = lake.rows(
        "select time, sum(rows) as rows, sum(bytes) as bytes from streams group by time", "telemetry/streams"
    )
    assert {r["time"]: r["rows"] for r in sums} == periods
    size = sum(len(r["plane"] or "") + len("JFK") + 8 + 4 for r in source.rows)
    assert sum(r["bytes"] for r in sums) == total(lake, "telemetry/flows", "bytes") == size
    assert {r["stream"] for r in lake.rows("select stream from streams", "telemetry/streams")} == {"JFK"}
    groups = lake.rows("select operator, key_group, rows_in from key_groups", "telemetry/key_groups")
    assert {r["key_group"] for r in groups if r["operator"] == "plane"} <= set(range(8))
    of_group = Counter()
    for r in groups:
        of_group[r["key_group"]] += r["rows_in"] if r["operator"] == "plane" else 0
    by_key = Counter(r["plane"] for r in source.rows)
    assert max(of_group.values()) >= max(by_key.values())  # a key lies in one group, and null is a key too


@pytest.mark.spark
def test_run_counts_all_rows_of_each_edge_by_key_groups(spark: Any, tmp_path: Path, source: Source) -> None:
    lake = Lake(tmp_path / "lake")
    plane, number = Operator("plane", ("plane",), 4), Operator("number", ("n",), 3)
    again = Operator("again", ("plane",), 4, after=("plane", "number"))
    run(spark, lake, profile(source, operators=(plane, number, again)))
    flows = lake.rows("select from_operator, from_group, to_operator, to_group, rows from flows", "telemetry/flows")
    of_edge = {first: [r for r in flows if r["from_operator"] == first] for first in ("plane", "number")}
    assert [sum(r["rows"] for r in rows) for rows in of_edge.values()] == [len(source.rows)] * 2
    assert all(r["from_group"] == r["to_group"] for r in of_edge["plane"]), "the same key lies in the same group"
    assert len({(r["from_group"], r["to_group"]) for r in of_edge["number"]}) > 4
    received = Counter()
    for r in of_edge["number"]:
        received[r["to_group"]] += r["rows"]
    groups = lake.rows("select operator, key_group, rows_in from key_groups", "telemetry/key_groups")
    brought = Counter()
    for r in groups:
        brought[r["key_group"]] += r["rows_in"] if r["operator"] == "again" else 0
    assert received == brought


@pytest.mark.spark
def test_run_when_it_died_between_two_tables_then_a_retry_doubles_nothing(
    spark: Any, tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path / "lake")
    append: Callable[..., Any] = Lake.append

    def dies(self: Lake, table: str, *args: Any) -> int | None:
        if table == TABLES[1]:
            raise OSError("killed")
        return append(self, table, *args)

    monkeypatch.setattr(Lake, "append", dies)
    with pytest.raises(OSError, match="killed"):
        run(spark, lake, profile(source))
    monkeypatch.setattr(Lake, "append", append)
    assert lake.committed(TABLES[0], "p/profile") > lake.committed(TABLES[1], "p/profile") == -1
    source.append(20)
    run(spark, lake, profile(source))
    assert_each_row_once(lake, source.rows)


@pytest.mark.spark
def test_run_when_input_is_bad_then_error_names_it(spark: Any, tmp_path: Path, source: Source) -> None:
    lake = Lake(tmp_path / "lake")
    for changes, key in (
        ({"time_column": "n"}, "time_column"),
        ({"time_column": "nope"}, "time_column"),
        ({"stream": ("nope",)}, "stream"),
        ({"operators": (Operator("o", ("nope",), 2),)}, "operators.o.key"),
    ):
        with pytest.raises(MillraceError) as caught:
            run(spark, lake, profile(source, **changes))
        assert caught.value.key == key
    with pytest.raises(MillraceError, match="source"):
        run(spark, lake, Profile("p", tmp_path / "nothing", "at", 600, OPERATORS, ()))
