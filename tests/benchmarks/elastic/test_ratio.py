"""Batch time over trigger interval with thresholds."""

from __future__ import annotations

import pytest

from benchmarks.elastic.ratio import executors_for


@pytest.mark.parametrize(
    ("ratio", "executors", "wanted"),
    [(0.5, 2, 2), (0.9, 2, 3), (2.6, 1, 4), (9.0, 1, 4), (0.3, 3, 2), (0.0, 1, 1)],
)
def test_executors_follow_the_ratio_within_bounds(ratio: float, executors: int, wanted: int) -> None:
    assert executors_for(ratio, executors, 1, 4) == wanted
