"""Rows of a Delta source, counted from its log, compared with a simple model."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from millrace.lake.backlog import DeltaOffset, DeltaSource, location_of
from millrace.lake.source_commits import DeltaRead
from tests.examples import examples

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.int64())])


class Model:
    """The appends of each commit: rows of each file in the order of the log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.commits: list[tuple[int, ...]] = []

    def append(self, rows_by_file: list[int]) -> None:
        parts = [p for p, n in enumerate(rows_by_file) for _ in range(n)]
        table = pa.table({"id": pa.array(range(len(parts)), pa.int64()), "part": pa.array(parts, pa.int64())})
        write_deltalake(self.path, table, mode="append", partition_by=["part"])
        self.commits.append(logged_rows(self.path, len(self.commits)))
        assert sorted(self.commits[-1]) == sorted(n for n in rows_by_file if n)

    def maintain(self, kind: str) -> None:
        table, before = DeltaTable(self.path), DeltaTable(self.path).version()
        if kind == "compact":
            table.optimize.compact()
        elif kind == "delete":
            table.delete("part = 0")
        else:
            table.create_checkpoint()
        # a rewrite appends nothing; a delete of whole files adds none
        self.commits += [()] * (DeltaTable(self.path).version() - before)

    @property
    def total(self) -> int:
        return sum(map(sum, self.commits))

    def after(self, version: int, index: int) -> int:
        return sum(self.commits[version][index + 1 :]) + sum(map(sum, self.commits[version + 1 :]))


def logged_rows(path: Path, version: int) -> tuple[int, ...]:
    lines = (path / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    adds = [json.loads(line)["add"] for line in lines if '"add"' in line[:8]]
    return tuple(json.loads(a["stats"])["numRecords"] for a in adds)


step = st.one_of(
    st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(any),
    st.sampled_from(["compact", "delete", "checkpoint"]),
)


@examples(25)
@given(steps=st.lists(step, min_size=1, max_size=8), late=st.integers(0, 8), forget=st.integers(0, 8))
def test_rows_after_when_commits_are_random_then_match_the_model(steps: list, late: int, forget: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model, source = Model(Path(folder) / "t"), None
        model.append([2, 1])
        for n, what in enumerate(steps):
            model.maintain(what) if isinstance(what, str) else model.append(what)
            if n == late:  # the rest is read incrementally
                source = DeltaSource(model.path)
        source = source or DeltaSource(model.path)
        source.refresh()
        assert source.version == len(model.commits) - 1
        assert source.total_rows == model.total
        source.forget_before(min(forget, source.version))
        for version in range(min(forget, source.version), len(model.commits)):
            for index in range(-1, len(model.commits[version])):
                assert source.rows_after(DeltaOffset(version, index, False)) == model.after(version, index)
        assert source.rows_after(DeltaOffset(len(model.commits), -1, False)) == 0
        assert source.total_rows == model.total


def test_rows_after_a_snapshot_offset_order_files_by_time_and_path(tmp_path: Path) -> None:
    model = Model(tmp_path / "t")
    model.append([5])
    model.append([7, 11])
    source = DeltaSource(model.path)
    adds = pa.table(DeltaTable(model.path).get_add_actions(flatten=True)).to_pylist()
    rows = [a["num_records"] for a in sorted(adds, key=lambda a: (a["modification_time"], a["path"]))]
    model.append([13])
    source.refresh()
    for index in range(-1, 3):
        assert source.rows_after(DeltaOffset(1, index, True)) == sum(rows[index + 1 :]) + 13


def test_rows_after_when_offset_is_ahead_of_the_log_then_is_unknown(tmp_path: Path) -> None:
    model = Model(tmp_path / "t")
    model.append([5])
    assert DeltaSource(model.path).rows_after(DeltaOffset(7, -1, False)) is None


def test_count_without_statistics_is_none_until_those_files_are_behind(tmp_path: Path) -> None:
    model = Model(tmp_path / "t")
    model.append([5])
    model.append([7])
    first = model.path / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"].pop("stats")
    first.write_text("\n".join(json.dumps(line, separators=(",", ":")) for line in lines))
    source = DeltaSource(model.path)
    assert source.total_rows is None
    assert source.rows_after(DeltaOffset(0, -1, False)) is None
    assert source.rows_after(DeltaOffset(0, 0, False)) == 7
    assert source.rows_after(DeltaOffset(1, 0, False)) == 0


def clean(path: Path, before: int) -> None:
    """Remove commits from the log, as Delta does once a checkpoint contains them."""
    DeltaTable(path).create_checkpoint()
    for version in range(before):
        (path / "_delta_log" / f"{version:020d}.json").unlink(missing_ok=True)


def test_count_starts_after_the_commits_that_were_cleaned(tmp_path: Path) -> None:
    model = Model(tmp_path / "t")
    for rows in (5, 7, 11):
        model.append([rows])
    clean(model.path, 2)
    model.append([13])
    source = DeltaSource(model.path)
    assert (source.total_rows, source.lost) == (24, (0, 1))
    assert source.rows_after(DeltaOffset(3, -1, False)) == 13
    assert source.rows_after(DeltaOffset(1, -1, False)) is None  # its commit is gone


def test_count_continues_after_commits_are_cleaned_under_it(tmp_path: Path) -> None:
    model = Model(tmp_path / "t")
    for rows in (5, 7, 11):
        model.append([rows])
    source = DeltaSource(model.path)
    for rows in (2, 3, 4, 6):
        model.append([rows])
    clean(model.path, 6)
    source.refresh()
    assert (source.version, source.lost) == (6, (3, 5))
    assert source.total_rows == 23 + 6
    assert source.rows_after(DeltaOffset(2, 0, False)) is None
    assert source.rows_after(DeltaOffset(6, -1, False)) == 6
    model.append([8])
    source.refresh()
    assert source.rows_after(DeltaOffset(7, -1, False)) == 8


def commit(path: Path, version: int, *actions: dict) -> None:
    (path / "_delta_log").mkdir(parents=True, exist_ok=True)
    text = "\n".join(json.dumps(action, separators=(",", ":")) for action in actions)
    (path / "_delta_log" / f"{version:020d}.json").write_text(text)


def add(name: str, rows: int | None, changes: bool = True, **more: object) -> dict:
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
    return {"add": {"path": name, "dataChange": changes, **stats, **more}}


def remove(name: str, rows: int | None = None, changes: bool = True, **more: object) -> dict:
    return {"remove": add(name, rows, changes, **more)["add"]}


def written(path: Path, name: str, rows: int) -> dict:
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": range(rows)}), path / name)
    return {"cdc": {"path": name, "dataChange": False}}


VECTOR = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 2}
SKIP, FEED, PLAIN = DeltaRead(skip_changes=True), DeltaRead(change_feed=True), DeltaRead()
UNCHANGED = {name: "0" for name in ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")}


@pytest.mark.parametrize(
    ("read", "update", "delete", "optimize", "idle_merge", "vector", "second_vector"),
    [(PLAIN, 300, 0, 0, 90, 90, 90), (SKIP, 0, 0, 0, 0, 0, 0), (FEED, 6, 80, 0, 0, 90, 180)],
)
def test_options_of_the_query_decide_which_rows_of_a_commit_count(
    tmp_path: Path,
    read: DeltaRead,
    update: int,
    delete: int,
    optimize: int,
    idle_merge: int,
    vector: int,
    second_vector: int,
) -> None:
    """The figures: an UPDATE of 3 rows that rewrites 300, a DELETE of a file, and so on."""
    commit(tmp_path, 0, add("a", 300), add("b", 80))
    source = DeltaSource(tmp_path, read)
    changes = [
        (update, [remove("a", 300), add("c", 300), written(tmp_path, "_change_data/cdc-1", 6)]),
        (delete, [remove("b", 80)]),
        (optimize, [remove("c", changes=False), add("d", 300, changes=False)]),
        (
            idle_merge,
            [{"commitInfo": {"operation": "MERGE", "operationMetrics": UNCHANGED}}, remove("e"), add("f", 90)],
        ),
        (vector, [remove("f", 90), add("f", 90, deletionVector=VECTOR)]),
        (second_vector, [remove("f", 90, deletionVector=VECTOR), add("f", 90, deletionVector=VECTOR)]),
        (7, [add("g", 7)]),
    ]
    for version, (rows, actions) in enumerate(changes, 1):
        before = source.total_rows
        commit(tmp_path, version, *actions)
        source.refresh()
        assert (source.total_rows, before) == ((before or 0) + rows, before), actions
        assert source.rows_after(DeltaOffset(version, -1, False)) == rows


def test_change_feed_numbers_its_files_as_spark_does(tmp_path: Path) -> None:
    commit(tmp_path, 0, add("a", 10), add("b", 20))
    commit(tmp_path, 1, remove("a", 10), add("c", 5), add("x", 9, changes=False), remove("b", 20))
    source = DeltaSource(tmp_path, FEED)
    assert [source.rows_after(DeltaOffset(1, n, False)) for n in (-1, 0, 1, 2)] == [35, 25, 20, 0]


def test_missing_change_files_make_the_rows_unknown(tmp_path: Path) -> None:
    commit(tmp_path, 0, {"cdc": {"path": "_change_data/gone", "dataChange": False}}, add("a", 1))
    commit(tmp_path, 1, remove("gone"))
    commit(tmp_path, 2, add("a", 4))
    source = DeltaSource(tmp_path, FEED)
    assert source.total_rows is None
    source.forget_before(2)
    assert source.rows_after(DeltaOffset(2, -1, False)) == 4
    assert source.total_rows is not None


def test_excluded_files_keep_their_number_and_count_no_rows(tmp_path: Path) -> None:
    read = DeltaRead(exclude="^b", excludes=lambda path: path.startswith("b"))
    commit(tmp_path, 0, add("a", 10), add("b%20c", 20), add("c", 40))
    source = DeltaSource(tmp_path, read)
    assert [source.rows_after(DeltaOffset(0, n, False)) for n in (-1, 0, 1, 2)] == [50, 40, 40, 0]


def test_source_when_there_is_no_table_then_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DeltaSource(tmp_path / "nothing")


def test_snapshot_in_a_folder_with_an_escaped_path_is_unknown(tmp_path: Path) -> None:
    """``deltalake`` opens ``a b`` for ``a%20b`` (delta-rs 1613): the rows of another table must not count."""
    for name, rows in (("a b", 100), ("a%20b", 10)):
        write_deltalake(tmp_path / "any", pa.table({"id": range(rows)}))
        shutil.move(tmp_path / "any", tmp_path / name)
    source = DeltaSource(tmp_path / "a%20b")
    assert source.total_rows == 10
    assert source.rows_after(DeltaOffset(0, -1, True)) is None
    assert source.rows_after(DeltaOffset(0, -1, False)) == 10


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("file:/a/b c", "/a/b c"),
        ("file:///a/b", "/a/b"),
        ("/a", "/a"),
        ("s3a://bucket/a/", "s3://bucket/a"),
        ("abfss://c@account.dfs.core.windows.net/a", "abfss://c@account.dfs.core.windows.net/a"),
        ("gs://bucket/a", "gs://bucket/a"),
        ("hdfs://host/a", None),
    ],
)
def test_location_of_a_path_as_hadoop_writes_it(uri: str, found: str | None) -> None:
    location = location_of(uri, {"AWS_REGION": "x"})
    assert (None if location is None else location.uri) == found
    assert location is None or location.options == ({"AWS_REGION": "x"} if uri.startswith("s3a") else {})
