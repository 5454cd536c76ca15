"""Bytes that each task of a stage wrote for each task of the next, from the driver's map output tracker.

Spark keeps one byte per pair, the logarithm of the size, so sizes are accurate to 10 %. From 2000 partitions on it
keeps only the mean of most pairs, which says nothing about a single pair. One call per stage reads all sizes. Spark
internals: pinned to its version, covered by tests.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

BASE = 1.1
"""Base of Spark's logarithm of sizes."""
EXACT = "CompressedMapStatus"
"""Spark's class of map outputs with a size per pair."""
SIZES = [0, *(int(BASE**code) for code in range(1, 256))]
"""Bytes that each code stands for."""


class MapOutput:
    """Reads the sizes of map outputs.

    Args:
        spark_context: The driver's SparkContext.
    """

    def __init__(self, spark_context: Any) -> None:
        jvm = spark_context._jvm
        self._shuffles = jvm.org.apache.spark.SparkEnv.get().mapOutputTracker().shuffleStatuses()
        annotation = jvm.com.fasterxml.jackson.annotation
        every, none = annotation.JsonAutoDetect.Visibility.ANY, annotation.JsonAutoDetect.Visibility.NONE
        self._mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
        self._mapper.setVisibility(annotation.PropertyAccessor.ALL, none)
        self._mapper.setVisibility(annotation.PropertyAccessor.FIELD, every)

    def sizes(self, shuffle: int) -> dict[tuple[int, int], int] | None:
        """Return the bytes from each map partition to each reduce partition, without empty pairs.

        Args:
            shuffle: Id of the shuffle.

        Returns:
            The bytes; None if the shuffle is gone, some of its output was lost, or Spark keeps no size per pair.
        """
        found = self._shuffles.get(shuffle)
        if not found.isDefined():
            return None
        outputs = found.get().mapStatuses()
        first = outputs[0] if len(outputs) else None
        if first is None or first.getClass().getSimpleName() != EXACT:
            return None
        return pairs(self._mapper.writeValueAsString(outputs))


def pairs(text: str) -> dict[tuple[int, int], int] | None:
    """Return the bytes from each map partition to each reduce partition, without empty pairs.

    Args:
        text: A JSON list of map outputs with their ``compressedSizes`` in base 64; null for a lost output.

    Returns:
        The bytes; None if the output of a map partition was lost.
    """
    outputs = json.loads(text)
    if None in outputs:
        return None
    codes: Sequence[bytes] = [base64.b64decode(output["compressedSizes"]) for output in outputs]
    return {(m, r): SIZES[code] for m, of_map in enumerate(codes) for r, code in enumerate(of_map) if code}
