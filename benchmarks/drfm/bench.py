"""Measure how well input streams are admitted: ``./millrace bench drfm``.

All strategies on the paper's workloads come first, then the scenarios that need their own runs.
"""

from __future__ import annotations

from collections.abc import Collection

from benchmarks import parts
from benchmarks.drfm import (
    adaptivity,
    frontier,
    gps,
    metadata_levels,
    pane_rate_skew,
    panes,
    partitions,
    scale,
    scenarios,
)
from benchmarks.drfm.targets import TARGETS
from benchmarks.parts import Part, undrawn
from benchmarks.record import Record
from benchmarks.targets import judged

PARTS = {
    "workloads": Part("psfcw", scenarios.records, scenarios.without_rivals),
    "no_metadata": Part("no_metadata", scenarios.without_metadata),
    "metadata": Part("metadata_psfcw", metadata_levels.records),
    "frontier": Part("bursty_frontier", frontier.bursty),
    "levels": Part("sfvar_level_4", scenarios.levels),
    "adaptivity": Part("adaptivity", adaptivity.records),
    "pane_rate_skew": Part("pane_rate_skew", pane_rate_skew.records),
    "gps": Part("gps", undrawn(gps.records)),
    "scale": Part("scale_1m", undrawn(scale.records)),
    "partitions": Part("zipf_1.0", undrawn(partitions.records)),
    "panes": Part("panes_streaming", undrawn(panes.records)),
}
SCENARIOS = parts.scenarios(PARTS)


def run(quick: bool, scenarios: Collection[str] = tuple(SCENARIOS), seed: int = 0, rivals: bool = True) -> list[Record]:
    """Run scenarios.

    Args:
        quick: Fewer seeds and periods.
        scenarios: Names of the scenarios to run.
        seed: Another seed gives other runs.
        rivals: If false, measure only what the targets need.
    """
    return judged(parts.measure(PARTS, scenarios, quick, seed, rivals), TARGETS)
