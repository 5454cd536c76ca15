"""What ``--seed`` means to benchmarks that number their runs: a run's number is its seed."""

from __future__ import annotations

APART = 1_000_000
"""Distance between the first runs of two seeds: more runs than any benchmark has."""


def first_run(seed: int) -> int:
    """Return the number of the first run of a seed, >= 0."""
    return APART * seed
