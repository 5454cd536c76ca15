"""Ends running queries where a batch ends, so that the next driver has nothing to repeat."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

POLL_S = 0.02
QUIET_S = 0.1
"""A trigger that was about to begin when the query was told to end shows within this time."""


def end_at_boundary(queries: Sequence[Any], deadline_s: float) -> bool:
    """End queries after their running batch and return True, or cut them at the deadline and return False.

    Spark's own ``stop()`` cancels the running batch. A query whose state says TERMINATED ends by itself before
    its next trigger (internal to Spark: pinned with its version, held by a test); one that sleeps until its next
    trigger runs nothing that ``stop()`` could cut.

    Args:
        queries: Streaming queries of this process.
        deadline_s: Time for all of them together, > 0.
    """
    give_up = time.monotonic() + deadline_s
    queries = [query for query in queries if running(query)]
    for query in queries:
        _tell(query)
    waiting = {id(query): time.monotonic() for query in queries}
    clean = True
    while active := [query for query in queries if running(query)]:
        now = time.monotonic()
        for query in active:
            if query._jsq.status().isTriggerActive():
                waiting[id(query)] = now
            late = now > give_up
            if late or now - waiting[id(query)] > QUIET_S:
                clean = clean and not late
                query.stop()
        time.sleep(POLL_S)
    return clean


def _tell(query: Any) -> None:
    from pyspark import SparkContext

    terminated = SparkContext._jvm.org.apache.spark.sql.execution.streaming.runtime
    state = getattr(terminated, "TERMINATED$")
    query._jsq.streamingQuery().state().set(getattr(state, "MODULE$"))


def running(query: Any) -> bool:
    """Say whether a query still runs a batch or may start one."""
    # its state says TERMINATED already: only its thread tells when the batch has ended
    return bool(query._jsq.streamingQuery().queryExecutionThread().isAlive())
