"""A synthetic node of a fleet: streams of known cost that share its slots, as rows of telemetry."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from millrace.model.arrival import ArrivalBasis
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import RUNNING, BatchMetrics, OperatorBatch
from tests.include.control.synthetic import START

Rate = Callable[[float], float]
MARK_S = 5.0
"""Seconds between two markers of a batch that runs for long."""


@dataclass
class Stream:
    """A stream whose batch takes ``batch_s`` + rows x ``row_s`` of a slot, of which tasks use the part of the rows.

    The first batch of a driver takes ``cold`` times as long. ``tasks`` is how many tasks read the rows at once: their
    useful time is ``tasks`` times the time that they take.
    """

    name: str
    rate: float | Rate = 100.0
    batch_s: float = 0.3
    row_s: float = 0.0002
    trigger_s: float = 5.0
    tasks: int = 1
    cold: float = 3.0
    start_s: float = 0.0
    counts: bool = True
    arrived: float = 0.0
    read: float = 0.0
    batch: int = 0
    due: float = 0.0
    begin: float | None = None
    rows: int = 0
    left: float = 0.0
    took_s: float = 0.0
    marked: float = 0.0

    def arrive(self, since: float, until: float) -> None:
        rate = self.rate if isinstance(self.rate, int | float) else self.rate((since + until) / 2)
        self.arrived += rate * (until - since)


@dataclass
class Node:
    """Slots that its streams share evenly while more batches run than there are slots.

    Attributes:
        streams: Its streams.
        name: Name of the app.
        slots: Its slots.
        generation: Start number of the driver.
        now: Seconds since :data:`START`.
    """

    streams: Sequence[Stream]
    name: str = "node0"
    slots: int = 2
    generation: int = 1
    now: float = 0.0
    step_s: float = 0.02
    started: set[str] = field(default_factory=set)

    def run(self, seconds: float) -> list[BatchMetrics]:
        """Return the rows of the next seconds."""
        return list(self._rows(self.now + seconds))

    def _rows(self, end: float) -> Iterator[BatchMetrics]:
        while self.now < end - 1e-9:
            for stream in self.streams:
                self._begin(stream)
            running = [stream for stream in self.streams if stream.begin is not None]
            pace = min(1.0, self.slots / len(running)) if running else 0.0
            for stream in self.streams:
                stream.arrive(self.now, self.now + self.step_s)
            self.now += self.step_s
            for stream in running:
                stream.left -= pace * self.step_s
                if stream.left <= 1e-9:
                    yield self._ended(stream)
                elif stream.counts and self._overdue(stream):
                    yield self._marker(stream)

    def _begin(self, stream: Stream) -> None:
        waiting = int(stream.arrived) - int(stream.read)
        if stream.begin is not None or waiting <= 0 or self.now < max(stream.due, stream.start_s) - 1e-9:
            return
        stream.begin, stream.rows = self.now, waiting
        stream.read += waiting
        stream.left = stream.batch_s + waiting * stream.row_s
        if stream.name not in self.started:
            self.started.add(stream.name)
            stream.left *= stream.cold

    def _overdue(self, stream: Stream) -> bool:
        """Whether a running batch is reported, as the listener does it."""
        assert stream.begin is not None
        ran_s, rested_s = self.now - stream.begin, self.now - stream.marked
        return stream.batch > 0 and min(ran_s, rested_s) >= MARK_S and ran_s > 1.5 * max(stream.took_s, MARK_S)

    def _marker(self, stream: Stream) -> BatchMetrics:
        assert stream.begin is not None
        ran_ms, stream.marked = round(1000 * (self.now - stream.begin)), self.now
        return self._row(stream, stream.batch - 1, 0, {RUNNING: ran_ms}, int(stream.read) - stream.rows)

    def _ended(self, stream: Stream) -> BatchMetrics:
        assert stream.begin is not None
        took_s, begun = self.now - stream.begin, stream.begin
        stream.begin = None
        if stream.trigger_s:  # as Spark's: at multiples of the interval, late ones at once
            stream.due = (math.floor(begun / stream.trigger_s + 1e-6) + 1) * stream.trigger_s
        stream.batch += 1
        stream.took_s, stream.marked = took_s, self.now
        useful_s = stream.rows * stream.row_s * stream.tasks
        operator = OperatorBatch("0.scan", "Scan", stream.tasks, stream.tasks, stream.rows, stream.rows, useful_s)
        row = self._row(
            stream, stream.batch - 1, stream.rows, {"triggerExecution": round(1000 * took_s)}, int(stream.read)
        )
        return replace(row, operators=(operator,))

    def _row(
        self, stream: Stream, batch_id: int, rows: int, durations_ms: Mapping[str, int], read: int
    ) -> BatchMetrics:
        end = int(stream.arrived)
        return BatchMetrics(
            pipeline="ingest",
            app=self.name,
            query=stream.name,
            time=START + timedelta(seconds=self.now),
            generation=self.generation,
            epoch=0,
            batch_id=batch_id,
            slots=self.slots,
            rows_in=rows,
            durations_ms=durations_ms,
            backlog_rows=end - read if stream.counts else None,
            source_end=end if stream.counts else None,
            arrival_basis=ArrivalBasis.COUNTED if stream.counts else ArrivalBasis.TAKEN,
            trigger_s=stream.trigger_s,
        )


def fleet_spec(*streams: str, nodes: int = 2, **admission: Any) -> PipelineSpec:
    """A fleet that is measured every 10 s; loads are in slots unless ``capacity`` is given."""
    fleet = {"script": "/x/ingest.py", "checkpoints": "/c", "streams": {"list": list(streams) or ["a"]}, "nodes": nodes}
    told = {"report_s": 10, "unfinished": 1, **admission}
    return PipelineSpec.model_validate({"name": "ingest", "fleet": fleet, "admission": told})
