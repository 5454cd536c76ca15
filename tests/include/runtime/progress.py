"""A running query as Spark shows it: its last progress, and its newest planned batch."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

IDLE = {"latestOffset": 3, "triggerExecution": 4}
RAN = {**IDLE, "addBatch": 100}


def progress(batch: int, durations: dict[str, int], *partitions: int) -> Any:
    """Return a progress with one stateful operator per number of partitions."""
    operators = [SimpleNamespace(numShufflePartitions=lambda n=n: n) for n in partitions]
    return SimpleNamespace(batchId=lambda: batch, durationMs=lambda: durations, stateOperators=lambda: operators)


@dataclass
class ShownQuery:
    """A query of which Spark shows a progress, and a batch that was planned last."""

    shown: Any = None
    planned: int | None = None
    shuffle_partitions: int = 8
    root: str = "/checkpoint"

    @property
    def _jsq(self) -> ShownQuery:
        return self

    def streamingQuery(self) -> Any:  # noqa: N802 - Spark's name
        conf = SimpleNamespace(get=lambda key: {"spark.sql.shuffle.partitions": self.shuffle_partitions}.get(key, "s"))
        session = SimpleNamespace(conf=lambda: conf)
        batch = SimpleNamespace(currentBatchId=lambda: self.planned, sparkSession=lambda: session)
        return SimpleNamespace(
            runId=lambda: SimpleNamespace(toString=lambda: "run"),
            name=lambda: "q",
            sink=lambda: SimpleNamespace(toString=lambda: "sink"),
            resolvedCheckpointRoot=lambda: self.root,
            sparkSession=lambda: session,
            lastProgress=lambda: self.shown,
            lastExecution=lambda: None if self.planned is None else batch,
        )
