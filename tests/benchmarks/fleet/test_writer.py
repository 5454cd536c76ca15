"""The process that commits the rows of all streams."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.fleet import writer
from benchmarks.fleet.workloads import Load
from benchmarks.fleet.writer import CONTENT, SCHEMA, Tables, play, writing
from millrace.lake.source_tables import SourceTable, arrivals
from tests.include.runtime.telemetry.arriving import ids

NAMES = ("s00000", "s00001")


def tables(folder: Path, rates: list[list[float]], period_s: float) -> Tables:
    made = [SourceTable(folder / name, SCHEMA, CONTENT) for name in NAMES]
    total = np.vstack([np.zeros(2), np.cumsum(rates, axis=0) * period_s])
    return Tables(made, total, period_s)


def test_commit_has_the_rows_that_are_due_by_then_and_none_twice(tmp_path: Path) -> None:
    made = tables(tmp_path, [[10.0, 0.0], [20.0, 3.0]], 2.0)
    for time_s in (0.0, 1.0, 1.0, 3.0, 4.0, 9.0):
        made.commit(0, time_s)
        made.commit(1, time_s)
    assert arrivals(tmp_path / NAMES[0])["rows"].to_pylist() == [10, 30, 20]
    assert arrivals(tmp_path / NAMES[1])["rows"].to_pylist() == [3, 3]
    assert ids(tmp_path / NAMES[0]) == list(range(60)) and ids(tmp_path / NAMES[1]) == list(range(6))


def test_tables_take_turns_until_all_rows_of_the_load_are_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, waits = [100.0], list[float]()
    monkeypatch.setattr(writer.time, "monotonic", lambda: now[0])

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        now[0] += max(0.0, seconds)
        return False

    play(tables(tmp_path, [[4.0, 8.0]] * 5, 2.0), wait)
    assert ids(tmp_path / NAMES[0]) == list(range(40)) and ids(tmp_path / NAMES[1]) == list(range(80))
    assert waits[:2] == pytest.approx([0.0, writer.COMMIT_S / 2]) and now[0] < 110.0


def test_process_plays_its_load_to_the_end_or_until_its_input_is_closed(tmp_path: Path) -> None:
    load = Load(NAMES, np.array([[40.0, 10.0]]), 1.0)
    with writing(tmp_path / "whole", load, tmp_path / "log") as process:
        begin = process.begin()
        process.end()
    assert ids(tmp_path / "whole" / NAMES[0]) == list(range(40)) and begin > 1e9
    endless = Load(NAMES, np.array([[1e4, 1e4]]), 1e6)
    with writing(tmp_path / "ended", endless, tmp_path / "log") as process:
        process.begin()
        process.end(now=True)
    assert ids(tmp_path / "ended" / NAMES[1]) == list(range(len(ids(tmp_path / "ended" / NAMES[1]))))


def test_process_that_cannot_create_its_tables_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    load = Load(NAMES, np.ones((1, 2)), 1.0)
    with pytest.raises(RuntimeError, match="does not start"), writing(tmp_path / "file", load, tmp_path / "log"):
        pass
