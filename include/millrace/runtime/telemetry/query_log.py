"""The newest batches in a query's own logs, which are part of its checkpoint.

Spark internals: pinned to its version, covered by tests.
"""

from __future__ import annotations

import json
from typing import Any


def newest_batch(query: Any) -> int:
    """Return the number of a query's newest batch, which may still run; -1 before the first.

    From the query's log of offsets.

    Args:
        query: Spark's own query, ``StreamExecution``.
    """
    return _newest(query.offsetLog())


def ends_of(query: Any, number: int) -> list[Any]:
    """Return the end offsets of a batch, one per source: the JSON value, or None if the source had none.

    Args:
        query: Spark's own query, ``StreamExecution``.
        number: Number of one of its newest batches; Spark deletes older ones.
    """
    offsets = query.offsetLog().get(number).get().offsets()
    ends = [offsets.apply(n) for n in range(offsets.size())]
    return [json.loads(end.get().json()) if end.isDefined() else None for end in ends]


def committed_batch(query: Any) -> int:
    """Return the number of a query's newest batch that has ended; -1 before the first.

    From the query's log of commits.

    Args:
        query: Spark's own query, ``StreamExecution``.
    """
    return _newest(query.commitLog())


def source_names(query: Any) -> list[str]:
    """Return the sources of a query as its progress names them, in the order of its offsets."""
    sources = query.sources()
    return [str(sources.apply(n).toString()) for n in range(sources.size())]


def _newest(log: Any) -> int:
    batch = log.getLatest()
    return -1 if batch.isEmpty() else int(batch.get()._1())
