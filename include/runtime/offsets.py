"""How far a query has read, from its own log of offsets (internal to Spark: pinned with its version, held by tests)."""

from __future__ import annotations

import json
from typing import Any


def newest(query: Any) -> tuple[int, list[Any]]:
    """Return number and end offsets of a query's newest batch, -1 and none before the first.

    Args:
        query: Spark's own query, ``StreamExecution``.
    """
    batch = query.offsetLog().getLatest()
    if batch.isEmpty():
        return -1, []
    offsets = batch.get()._2().offsets()
    ends = [offsets.apply(n) for n in range(offsets.size())]
    return int(batch.get()._1()), [json.loads(end.get().json()) if end.isDefined() else None for end in ends]


def descriptions(query: Any) -> list[str]:
    """Return the sources of a query as its progress names them, in the order of its offsets."""
    sources = query.sources()
    return [str(sources.apply(n).toString()) for n in range(sources.size())]
