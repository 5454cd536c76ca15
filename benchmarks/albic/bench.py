"""Measure how well key groups are placed: ``./millrace bench albic``.

Balance alone comes first (the paper's grid, a large cluster, scale-in, the budget), then balance with collocation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from benchmarks import parts
from benchmarks.albic import budget, collocation, drain, flight_groups, grid, large
from benchmarks.albic.targets import TARGETS, of_rivals
from benchmarks.parts import Part
from benchmarks.record import Record
from benchmarks.targets import judged
from millrace.local.stack.progress import step


def _large(quick: bool, first: int) -> Iterator[Record]:
    yield from large.records(quick, first)
    yield from collocation.large_records(quick, first)


PARTS = {
    "grid": Part("grid", grid.records, grid.without_rivals),
    "large": Part("large", _large),
    "drain": Part("drain", drain.records),
    "budget": Part("budget_unrestricted", budget.records),
    **{
        name: Part(name, partial(collocation.records, shape), partial(collocation.without_rivals, shape))
        for name, shape in collocation.SHAPES.items()
    },
}
SCENARIOS = parts.scenarios(PARTS)


def run(quick: bool, scenarios: Collection[str] = tuple(SCENARIOS), seed: int = 0, rivals: bool = True) -> list[Record]:
    """Run scenarios.

    Args:
        quick: Fewer instances, seeds and periods.
        scenarios: Names of the scenarios to run.
        seed: Another seed gives other runs.
        rivals: If false, measure only what the targets need.
    """
    if collocation.OF_FLIGHTS.intersection(scenarios):
        with step("start hashing the keys of flights, which goes on beside the rest"):
            flight_groups.begin()
    records = parts.measure(PARTS, scenarios, quick, seed, rivals)
    return judged(records, (*TARGETS, *of_rivals(records)))
