"""The newest batches in a query's own logs, which are part of its checkpoint.

Spark internals: pinned to its version, covered by tests.
"""

from __future__ import annotations

import json
from typing import Any


def newest_batch(query: Any) -> tuple[int, list[Any]]:
    """Return the number and end offsets of a query's newest batch; -1 and none before the first.

    From the query's log of offsets.

    Args:
        query: Spark's own query, ``StreamExecution``.
    """
    batch = query.offsetLog().getLatest()
    if batch.isEmpty():
        return -1, []
    offsets = batch.get()._2().offsets()
    ends = [offsets.apply(n) for n in range(offsets.size())]
    return int(batch.get()._1()), [json.loads(end.get().json()) if end.isDefined() else None for end in ends]


def committed_batch(query: Any) -> int:
    """Return the number of a query's newest batch that has ended; -1 before the first.

    From the query's log of commits.

    Args:
        query: Spark's own query, ``StreamExecution``.
    """
    batch = query.commitLog().getLatest()
    return -1 if batch.isEmpty() else int(batch.get()._1())


def source_names(query: Any) -> list[str]:
    """Return the sources of a query as its progress names them, in the order of its offsets."""
    sources = query.sources()
    return [str(sources.apply(n).toString()) for n in range(sources.size())]
