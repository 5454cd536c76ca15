"""Batch time over trigger interval with thresholds: what SPARK-24815 proposes for Structured Streaming.

The thresholds, and how many executors come and go, are those of the allocation manager that Spark has for DStreams
(``org.apache.spark.streaming.scheduler.ExecutorAllocationManager``), which goes by the same ratio.
"""

from __future__ import annotations

UP_RATIO, DOWN_RATIO = 0.9, 0.3


def executors_for(ratio: float, executors: int, least: int, most: int) -> int:
    """Return the executors to have next.

    Args:
        ratio: Mean batch time over the trigger interval; 0 where no batch ran.
        executors: Those that there are.
        least: Fewest allowed.
        most: Most allowed.
    """
    step = max(round(ratio), 1) if ratio >= UP_RATIO else -1 if ratio <= DOWN_RATIO else 0
    return min(max(executors + step, least), most)
