"""Rows of a Delta source, counted from its log, against a plain model."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from millrace.lake.backlog import DeltaOffset, DeltaSource, local_path
from tests.examples import examples

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.int64())])


class Model:
    """What was appended, commit by commit: rows of each file in the order of the log."""

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
def test_rows_after_when_commits_are_random_then_equal_the_model(steps: list, late: int, forget: int) -> None:
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


def test_rows_after_when_offset_lies_ahead_of_the_log_then_unknown(tmp_path: Path) -> None:
    model = Model(tmp_path / "t")
    model.append([5])
    assert DeltaSource(model.path).rows_after(DeltaOffset(7, -1, False)) is None


def test_count_without_statistics_is_none_until_they_lie_behind(tmp_path: Path) -> None:
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


def test_count_starts_from_the_checkpoint_of_a_cleaned_log(tmp_path: Path) -> None:
    model = Model(tmp_path / "t")
    for rows in (5, 7, 11):
        model.append([rows])
    DeltaTable(model.path).create_checkpoint()
    for version in range(2):
        (model.path / "_delta_log" / f"{version:020d}.json").unlink()
    model.append([13])
    source = DeltaSource(model.path)
    assert source.total_rows == 36
    assert source.rows_after(DeltaOffset(3, -1, False)) == 13
    assert source.rows_after(DeltaOffset(1, -1, False)) is None  # its commit is gone


def test_count_takes_a_deletion_vector_for_no_new_rows(tmp_path: Path) -> None:
    model = Model(tmp_path / "t")
    model.append([5])
    lines = (model.path / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    add = next(json.loads(line)["add"] for line in lines if line.startswith('{"add"'))
    vector = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 2}
    commit = [{"remove": {"path": add["path"], "dataChange": True}}, {"add": {**add, "deletionVector": vector}}]
    text = "\n".join(json.dumps(line, separators=(",", ":")) for line in commit)
    (model.path / "_delta_log" / f"{1:020d}.json").write_text(text)
    assert DeltaSource(model.path).total_rows == 5


def test_source_when_there_is_no_table_then_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DeltaSource(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("uri", "path"),
    [("file:/a/b c", "/a/b c"), ("file:///a/b", "/a/b"), ("/a", "/a"), ("s3a://bucket/a", None)],
)
def test_local_path_when_uri_is_read_then_only_local_ones_have_a_path(uri: str, path: str | None) -> None:
    assert local_path(uri) == (None if path is None else Path(path))
