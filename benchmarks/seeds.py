"""What ``--seed`` means to benchmarks that number their runs: each number is the seed of a run."""

from __future__ import annotations

APART = 1_000_000
"""Runs between those of two seeds: more than any benchmark has."""


def first_run(seed: int) -> int:
    """Return the number of the first run of a seed, >= 0."""
    return APART * seed
