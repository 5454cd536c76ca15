from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.parts import Part, measure, scenarios, undrawn
from benchmarks.record import Record
from benchmarks.seeds import first_run
from millrace.local.cli.bench import bench_module


def drawn(quick: bool, first: int) -> Iterator[Record]:
    yield Record("b", "one", "ours", "first", first, "")


def fixed(quick: bool) -> Iterator[Record]:
    yield Record("b", "two", "ours", "quick", quick, "")


PARTS = {"a": Part("one", drawn), "b": Part("two", undrawn(fixed))}


def test_parts_are_measured_by_name_and_seed() -> None:
    assert [(r.figure, r.value) for r in measure(PARTS, PARTS, True, 3)] == [("first", first_run(3)), ("quick", True)]
    assert [r.figure for r in measure(PARTS, ["b"], False, 0)] == ["quick"]
    assert scenarios(PARTS) == {"a": "one", "b": "two"}


def test_part_with_less_to_measure_without_rivals_measures_less() -> None:
    parts = {"a": Part("one", drawn, undrawn(fixed)), "b": Part("one", drawn)}
    assert [r.figure for r in measure(parts, parts, True, 0, rivals=False)] == ["quick", "first"]
    assert [r.figure for r in measure(parts, parts, True, 0)] == ["first", "first"]


@pytest.mark.parametrize(("name", "part"), [("drfm", "scale"), ("albic", "drain"), ("esj", "block_size")])
def test_part_returns_the_scenario_that_it_declares(name: str, part: str) -> None:
    module = bench_module(name)
    found = module.run(True, [part])
    assert module.SCENARIOS[part] in {r.scenario for r in found}
