"""Draw all pictures of the benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.conttune.cases import FRONTIER_SCENARIOS
from benchmarks.conttune.pictures.frontiers import frontiers
from benchmarks.conttune.pictures.look import kept
from benchmarks.conttune.pictures.shares import EXPLORERS, shares
from benchmarks.conttune.pictures.trajectory import trajectory
from benchmarks.record import Record

SHOWN = ("flow", "conttune_strong", "ds2_stop", "flink_0.9_0.2")
"""Methods whose trajectory is shown, if they were measured."""
SCENARIO, RUN = "paper", 1
"""The run that is repeated for a picture: the second of the paper's queries."""
MOST_RUNS = 6
"""Runs behind the shares, at most one per query."""
COLUMNS = 5
"""Most scenarios that are still readable in the picture of frontiers."""


def draw(records: Sequence[Record], folder: Path) -> list[Path]:
    """Write the pictures and return their paths.

    Args:
        records: All results.
        folder: Target folder; created if it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    measured = {r.method for r in records if r.scenario == SCENARIO}
    shown = [method for method in SHOWN if method in measured]
    paths = [kept(trajectory(SCENARIO, RUN, shown), folder, "trajectory")] if shown else []
    front = frontiers(records, FRONTIER_SCENARIOS[:COLUMNS])
    if front is not None:
        paths.append(kept(front, folder, "frontier"))
    runs = min((r.n for r in records if r.scenario == SCENARIO and r.method in EXPLORERS), default=0)
    if runs:
        paths.append(kept(shares(SCENARIO, min(runs, MOST_RUNS)), folder, "exploration"))
    return paths
