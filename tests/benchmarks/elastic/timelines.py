"""A run to measure: rows that arrived and batches that took them, at times that are easy to follow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from millrace.local.demo.timeline import Timeline

Points = Sequence[tuple[float, float]]


def timeline(arrivals: Points, batches: Points) -> Timeline:
    """Return a run.

    Args:
        arrivals: Time and rows of each commit to the source.
        batches: End and rows of each batch.
    """
    (arrival_s, arrived), (batch_s, taken) = (np.array(points, dtype=float).T for points in (arrivals, batches))
    return Timeline(
        begun=datetime(2013, 1, 1, tzinfo=UTC),
        length_s=float(batch_s[-1]),
        apps=("delays",),
        arrival_s=arrival_s,
        arrival_rows=np.cumsum(arrived),
        batch_s=batch_s,
        batch_rows=np.cumsum(taken),
    )
