"""How well input streams are admitted: ``./millrace bench drfm``.

All strategies on the paper's workloads first, then what needs a run of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import Group
from rich.text import Text

from benchmarks import record
from benchmarks.data import folder
from benchmarks.drfm import adaptivity, gps, metadata_levels, pane_rate_skew, panes, partitions, scale, scenarios
from benchmarks.drfm.targets import TARGETS
from benchmarks.record import Record
from benchmarks.targets import judged
from benchmarks.threads import one_thread
from include.local.stack.progress import step

PARTS: dict[str, Callable[[bool], Iterator[Record]]] = {
    "workloads": scenarios.records,
    "no metadata": scenarios.without_metadata,
    "metadata": metadata_levels.records,
    "frontier": scenarios.frontier,
    "levels": scenarios.levels,
    "adaptivity": adaptivity.records,
    "gps": gps.records,
    "scale": scale.records,
    "partitions": partitions.records,
    "pane rate skew": pane_rate_skew.records,
    "panes": panes.records,
}


def run(quick: bool) -> list[Record]:
    """Measure everything.

    Args:
        quick: Fewer seeds and periods.
    """
    found: list[Record] = []
    for name, part in PARTS.items():
        with step(name), one_thread():
            found += part(quick)
    return judged(found, TARGETS)


def report(records: Sequence[Record]) -> Group:
    """Lay the figures out, and name what was skipped.

    Args:
        records: The benchmark's results.
    """
    shown = [record.table(records)]
    if any(r.scenario == "gps" for r in records):
        return Group(*shown)
    return Group(*shown, Text(f"skipped: gps: no {gps.FILE} in {folder()} (MILLRACE_DATA)"))
