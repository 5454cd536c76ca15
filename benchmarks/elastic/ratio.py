"""Batch time over trigger interval with thresholds: what SPARK-24815 proposes for Structured Streaming.

The thresholds, and the number of executors that come and go, are those of Spark's allocation manager for DStreams
(``org.apache.spark.streaming.scheduler.ExecutorAllocationManager``), which uses the same ratio.
"""

from __future__ import annotations

UP_RATIO, DOWN_RATIO = 0.9, 0.3


def executors_for(ratio: float, executors: int, least: int, most: int) -> int:
    """Return the next number of executors.

    Args:
        ratio: Mean batch time over the trigger interval; 0 if no batch ran.
        executors: Current executors.
        least: Fewest allowed.
        most: Most allowed.
    """
    step = max(round(ratio), 1) if ratio >= UP_RATIO else -1 if ratio <= DOWN_RATIO else 0
    return min(max(executors + step, least), most)
