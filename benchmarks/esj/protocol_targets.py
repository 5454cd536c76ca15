"""Targets of message passing."""

from __future__ import annotations

from benchmarks.esj.sharing import TASKS
from benchmarks.targets import Target

EXACT = ("pairs_lost", "pairs_doubled", "workload_difference_over_block", "tuples_left", "runs_stuck")

TARGETS = (
    *(Target("interleavings", "ours", figure, 0.0) for figure in EXACT),
    *(Target(f"sharing_{n}", "ours", "matches_different", 0.0) for n in TASKS),
)
