"""Targets of message passing."""

from __future__ import annotations

from benchmarks.esj.random_batches import METHODS, SCENARIO
from benchmarks.targets import Target

EXACT = ("pairs_lost", "pairs_doubled", "workload_difference_over_block", "runs_stuck")

TARGETS = tuple(Target(SCENARIO, method, figure, 0.0) for method in METHODS for figure in EXACT)
