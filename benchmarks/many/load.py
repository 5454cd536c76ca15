"""What synthetic pipelines do when: how many rows arrive, what batches they make of them, and when they are silent."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from millrace.model.telemetry import BatchMetrics, OperatorBatch

BATCH_S = 5.0
LOW_ROWS_PER_S, RISE = 1000.0, 3.0
STEP_S = 1200.0
"""Time after which a pipeline's rate changes again, seconds."""
SLOT_ROWS_PER_S = 800.0
"""Throughput of a slot: the low rate needs two slots at a utilisation of 0.8, the high rate five."""
FIXED_S = 0.4
"""Time of a batch without its rows, seconds."""
SHARES = {"0.Scan": 0.1, "1.MapInPandas": 0.9}
"""Share of a batch's work by operator."""
NOISE, WIDEST_NOISE = 7919, 97
QUERY = "q"
CYCLE_S, SILENT_S = 190.0, 80.0
"""Interval between the ends of two silences, and the length of one, seconds. Three evaluations are due per cycle: at
the end of a silence, and one and two periods later. The next silence begins before the last of them."""
FIRST_SILENT_S = 140.0
"""Length of the first silence, seconds: over two periods, because it is not known when evaluations were due before."""


def rate_at(place: int, pipelines: int, after_s: float) -> float:
    """Return the arrival rate of a pipeline, rows per second.

    It starts low, changes by a factor of three and back every twenty minutes, and no two pipelines change at once.

    Args:
        place: Number of the pipeline, 0 to ``pipelines`` - 1.
        pipelines: Number of pipelines, >= 1.
        after_s: Time since the start, seconds, >= 0.
    """
    first_s = STEP_S * (place + 0.5) / pipelines
    steps = 0 if after_s < first_s else 1 + int((after_s - first_s) // STEP_S)
    return LOW_ROWS_PER_S * (RISE if steps % 2 else 1.0)


class Silences:
    """When a pipeline keeps its telemetry to itself: never before :meth:`start`, then once per cycle."""

    def __init__(self) -> None:
        self._begin_s = self._end_s = math.inf

    def start(self, at_s: float) -> None:
        """Begin the first silence at a time, seconds."""
        self._begin_s, self._end_s = at_s, at_s + FIRST_SILENT_S

    def holds(self, now_s: float) -> bool:
        """Return whether the pipeline is silent at a time, seconds, not before that of the last call."""
        if now_s >= self._end_s:
            self._end_s += CYCLE_S
            self._begin_s = self._end_s - SILENT_S
        return now_s >= self._begin_s


class SyntheticQuery:
    """A query whose batches end every five seconds.

    Args:
        pipeline: Name of the pipeline and of its app.
        place: Its number among the pipelines, from 0.
        pipelines: Number of pipelines.
    """

    def __init__(self, pipeline: str, place: int, pipelines: int) -> None:
        self.pipeline, self._place, self._pipelines = pipeline, place, pipelines
        self._arrived = self._waiting = self._next = 0

    def batch(self, after_s: float, now: datetime, slots: int) -> BatchMetrics:
        """Return the next batch.

        Args:
            after_s: Time since the start, seconds.
            now: When the batch ends (UTC).
            slots: Slots that it runs on, >= 1.
        """
        number, self._next = self._next, self._next + 1
        noise = 1 + (number * NOISE % WIDEST_NOISE / WIDEST_NOISE - 0.5) / 50
        arrived = round(rate_at(self._place, self._pipelines, after_s) * BATCH_S * noise)
        self._arrived += arrived
        self._waiting += arrived
        rows = min(self._waiting, int((BATCH_S - FIXED_S) * SLOT_ROWS_PER_S * slots))
        self._waiting -= rows
        useful_s = rows / SLOT_ROWS_PER_S
        took_ms = round(1000 * (FIXED_S + useful_s / slots))
        return BatchMetrics(
            pipeline=self.pipeline,
            app=self.pipeline,
            query=QUERY,
            time=now.astimezone(UTC),
            generation=1,
            epoch=0,
            batch_id=number,
            slots=slots,
            rows_in=rows,
            rows_out=rows,
            durations_ms={"triggerExecution": took_ms, "addBatch": took_ms - 100, "walCommit": 40, "latestOffset": 30},
            backlog_rows=self._waiting,
            source_end=self._arrived,
            host_cpu_other=0.1,
            operators=tuple(
                OperatorBatch(key, key.partition(".")[2], slots, slots, rows, rows, share * useful_s)
                for key, share in SHARES.items()
            ),
            trigger_s=BATCH_S,
        )
