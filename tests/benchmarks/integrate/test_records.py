from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.integrate.bench import records
from benchmarks.integrate.runs import (
    EXECUTORS,
    FIGURES,
    METHODS,
    OPERATOR,
    OURS,
    RIVAL,
    Run,
    by_number,
    expected,
    hot_partitions,
    moves,
    slots_added,
    spec_for,
)


def run(**figures: float) -> Run:
    return Run({**dict.fromkeys(FIGURES, 0.0), "core_seconds": 100.0, **figures})


def holds(rounds: list[dict[str, Run]]) -> dict[str, bool | None]:
    return {r.figure: r.holds for r in records(rounds) if r.method == OURS.name and r.target is not None}


def test_worst_round_decides_whether_ours_is_cheaper_and_no_later() -> None:
    good = {OURS.name: run(core_seconds=60.0, behind_s=20.0), RIVAL.name: run(behind_s=20.0)}
    assert all(holds([good, good]).values())
    assert not holds([good, {**good, OURS.name: run(core_seconds=80.0)}])["core_seconds_vs_non_integrated"]
    late = {**good, OURS.name: run(core_seconds=60.0, behind_s=30.0)}
    assert not holds([good, late])["behind_more_than_non_integrated_s"]
    grown = {**good, OURS.name: run(core_seconds=60.0, slots_added=1.0)}
    assert not holds([good, grown])["slots_added"]


def test_rounds_without_a_rival_are_not_compared() -> None:
    found = records([{OURS.name: run()}])
    assert {record.method for record in found} == {OURS.name}
    assert "core_seconds_vs_non_integrated" not in {record.figure for record in found}
    assert records([]) == records([{}]) == []


@pytest.mark.parametrize("seed", range(5))
def test_hot_partitions_start_on_one_executor_and_have_a_third_of_the_rows(seed: int, tmp_path: Path) -> None:
    hot = hot_partitions(seed)
    placed = by_number(spec_for(tmp_path, OURS, hot, 8.0)).apps["skewed"].placement[OPERATOR]
    assert len({placed[p] for p in hot}) == 1 and {*placed} == {*range(EXECUTORS)}
    rows = expected(132_000, hot)
    assert sum(rows) == 132_000 and sum(rows[p] for p in hot) == pytest.approx(44_000, rel=0.03)


def test_methods_differ_only_in_the_framework(tmp_path: Path) -> None:
    specs = [spec_for(tmp_path, method, (1,), 8.0) for method in METHODS]
    assert [spec.placement and spec.placement.options["framework"] for spec in specs] == [
        "integrated", "non_integrated", "non_integrated",
    ]  # fmt: skip
    assert len({spec.model_copy(update={"placement": None}).model_dump_json() for spec in specs}) == 1


def test_moves_and_added_slots_are_counted_over_versions(tmp_path: Path) -> None:
    first = by_number(spec_for(tmp_path, OURS, (1,), 8.0)).apps["skewed"]
    other = list(first.placement[OPERATOR])
    other[0], other[5] = 3, 2
    moved = replace(first, placement={OPERATOR: tuple(other)})
    contents = [first, moved, replace(moved, slots=8), replace(moved, slots=4), replace(moved, slots=6)]
    assert moves(contents) == 2 and slots_added(contents) == 6
