"""The format of every benchmark's results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from benchmarks.record import Record, at_most, median, read, table, write


def test_write_when_read_back_then_has_the_one_format(tmp_path: Path) -> None:
    target, holds = at_most(50.0, 45.0)
    write([Record("stack", "start", "millrace", "healthy in", 50.0, "s", target=target, holds=holds)], tmp_path / "r")
    (row,) = json.loads((tmp_path / "r").read_text())
    assert set(row) == {
        *("bench", "scenario", "method", "figure", "value", "low", "high", "n", "unit", "target", "holds", "measured"),
        "seed",
    }
    assert (row["target"], row["holds"], row["low"]) == ("<=45", False, None)


def test_value_is_judged_as_recorded() -> None:
    assert at_most(1.05 + 1e-15, 1.05)[1] and not at_most(1.05001, 1.05)[1]
    assert not at_most(1e-9, 0.0)[1]


def test_write_when_the_scenario_has_figures_then_replaces_only_those(tmp_path: Path) -> None:
    former = [Record("a", "one", "ours", "time_s", value, "s") for value in (1.0, 2.0)]
    kept = [Record("a", "two", "ours", "time_s", 3.0, "s"), Record("b", "one", "ours", "time_s", 4.0, "s")]
    kept.append(Record("a", "one", "ours", "cost", 6.0, "", seed=7))
    new = [Record("a", "one", "ours", "cost", 5.0, "")]
    write([*former, *kept], tmp_path / "r")
    write(new, tmp_path / "r")
    assert read(tmp_path / "r") == [*kept, *new]


def test_write_to_a_folder_changes_only_the_files_of_these_scenarios(tmp_path: Path) -> None:
    one, two = Record("a", "one", "ours", "time_s", 1.0, "s"), Record("a", "two", "ours", "time_s", 2.0, "s")
    write([one, two, Record("b", "one", "ours", "time_s", 3.0, "s")], tmp_path)
    before = (tmp_path / "a" / "two.json").stat().st_ino
    write([replace(one, value=4.0)], tmp_path)
    assert [r.value for r in read(tmp_path)] == [4.0, 2.0, 3.0]
    assert (tmp_path / "a" / "two.json").stat().st_ino == before


def test_table_when_a_target_is_missed_then_says_so() -> None:
    console = Console(record=True, width=120)
    target, holds = at_most(50.0, 45.0)
    console.print(table([Record("b", "s", "m", "f", 50.0, "s", target=target, holds=holds)]))
    assert "no" in console.export_text()


def test_median_has_an_interval_only_if_there_are_several_values() -> None:
    several = median("b", "s", "m", "f", [1.0, 2.0, 9.0], "s")
    alone = median("b", "s", "m", "f", [4.0], "s")

    assert (several.value, several.n) == (2.0, 3)
    assert (several.low, several.high) == (1.05, 8.65)
    assert (alone.value, alone.low, alone.high, alone.n) == (4.0, None, None, 1)
