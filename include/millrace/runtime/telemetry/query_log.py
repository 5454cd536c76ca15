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


def sources_after(query: Any, number: int) -> list[dict[str, Any]]:
    """Return the description and end offset of each source of a query after a batch, as in the batch's progress event.

    A query that reads one stream twice has one source in the event, and two offsets in the log.

    Args:
        query: Spark's own query, ``StreamExecution``.
        number: Number of one of its newest batches; Spark deletes older ones. -1 before the first.

    Returns:
        The sources in the order of the event. An end offset is a JSON value, or None if the source had none.
    """
    sources = query.sources()
    streams = [sources.apply(n) for n in range(sources.size())]
    ends = _ends(query, number) if number >= 0 else [None] * len(streams)
    each = dict(zip(streams, ends, strict=True))
    return [{"description": str(stream.toString()), "endOffset": end} for stream, end in each.items()]


def committed_batch(query: Any) -> int:
    """Return the number of a query's newest batch that has ended; -1 before the first.

    From the query's log of commits.

    Args:
        query: Spark's own query, ``StreamExecution``.
    """
    return _newest(query.commitLog())


def _ends(query: Any, number: int) -> list[Any]:
    offsets = query.offsetLog().get(number).get().offsets()
    ends = [offsets.apply(n) for n in range(offsets.size())]
    return [json.loads(end.get().json()) if end.isDefined() else None for end in ends]


def _newest(log: Any) -> int:
    batch = log.getLatest()
    return -1 if batch.isEmpty() else int(batch.get()._1())
