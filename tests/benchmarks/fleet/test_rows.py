"""Rows of streams: how long they waited, and which are missing or doubled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.fleet.rows import Copy, differences, done_s, latency_s
from benchmarks.fleet.writer import CONTENT, SCHEMA
from benchmarks.graph.lag import Steps
from benchmarks.graph.workloads import Difference
from millrace.lake.source_tables import SourceTable

END = 100.0


def steps(points: Sequence[tuple[float, float]]) -> Steps:
    at, rows = np.array(points, dtype=float).reshape(-1, 2).T
    return Steps(at, np.cumsum(rows))


def written(folder: Path, *commits: Sequence[int]) -> Path:
    table = SourceTable(folder, SCHEMA, CONTENT)
    for number, ids in enumerate(commits):
        table.append(pa.table({"id": pa.array(ids, pa.int64())}, schema=SCHEMA), 1, "test", number)
    return folder


def test_row_waits_until_the_sink_has_as_many_rows_as_the_source_had_with_it() -> None:
    copy = steps([(10, 4), (12, 2), (13, 4)]), steps([(14, 6), (20, 4)])
    assert latency_s([copy], 0.4, END) == pytest.approx(4.0)
    assert latency_s([copy], 0.6, END) == pytest.approx(4.0)  # the rows of the second commit waited 2 s
    assert latency_s([copy], 1.0, END) == pytest.approx(7.0)
    assert latency_s([copy], 0.2, END) == pytest.approx(2.0)


def test_latency_counts_rows_of_all_streams() -> None:
    slow, quick = (steps([(0, 10)]), steps([(9, 10)])), (steps([(0, 90)]), steps([(1, 90)]))
    assert latency_s([slow, quick], 0.9, END) == pytest.approx(1.0)
    assert latency_s([slow, quick], 0.95, END) == pytest.approx(9.0)
    assert done_s([slow, quick]) == 9.0


def test_row_that_is_never_written_waits_until_the_end() -> None:
    assert latency_s([(steps([(0, 5), (1, 5)]), steps([(2, 5)]))], 0.95, END) == END - 1
    assert latency_s([(steps([(0, 5)]), Steps(np.zeros(0), np.zeros(0)))], 0.5, END) == END


def test_rows_are_lost_or_doubled_by_their_numbers(tmp_path: Path) -> None:
    source = written(tmp_path / "in", [0, 1, 2], [3, 4])
    same = Copy(source, written(tmp_path / "same", [0, 1, 2, 3], [4]))
    lost = Copy(source, written(tmp_path / "lost", [0, 1], [4]))
    doubled = Copy(source, written(tmp_path / "doubled", [0, 1, 2], [2, 3, 4]))
    both = Copy(source, written(tmp_path / "both", [0, 1, 1], [3, 4]))
    never = Copy(source, tmp_path / "never")
    assert [c.difference() for c in (same, lost, doubled, both, never)] == [
        Difference(0, 0),
        Difference(2, 0),
        Difference(0, 1),
        Difference(1, 1),
        Difference(5, 0),
    ]
    assert [c.missing() for c in (same, lost, never)] == [0, 2, 5]
    assert differences([same, lost, doubled, both]) == Difference(3, 2)


def test_copy_without_a_sink_has_written_nothing(tmp_path: Path) -> None:
    source, sink = Copy(written(tmp_path / "in", [0, 1], [2]), tmp_path / "none").steps()
    assert source.rows.tolist() == [2.0, 3.0] and sink.rows.size == 0
