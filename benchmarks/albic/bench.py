"""How well key groups are placed: ``./millrace bench albic``.

Balance alone first (the paper's grid, a large cluster, scale-in, the budget), then collocation with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.albic import budget, collocation, drain, flight_groups, grid, large
from benchmarks.albic.targets import TARGETS, rivals
from benchmarks.record import Record
from benchmarks.targets import judged
from benchmarks.threads import one_thread
from include.local.stack.progress import step

PARTS: dict[str, Callable[[bool], Iterator[Record]]] = {
    "grid": grid.records,
    "large": large.records,
    "drain": drain.records,
    "budget": budget.records,
    "collocation": collocation.records,
}


def run(quick: bool) -> list[Record]:
    """Measure everything.

    Args:
        quick: Fewer instances, seeds and periods.
    """
    found: list[Record] = []
    with step("start hashing the keys of flights, which goes on beside the rest"):
        flight_groups.begin()
    for name, part in PARTS.items():
        with step(name), one_thread():
            found += part(quick)
    return judged(found, (*TARGETS, *rivals(found)))
