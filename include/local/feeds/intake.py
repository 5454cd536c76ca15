"""Ticks of a replay, divided among ingest tables by a course, and what of that streams are told to have brought.

A stream is what some columns name together, as ``profile_<pipeline>`` has it. Rows that wait are in the replay itself:
nothing is lost with the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from include.local.feeds.course import Course
from include.local.feeds.course_log import CourseLog
from include.local.feeds.replay import Replay


@dataclass(frozen=True)
class Intake:
    """A replay seen as streams.

    Attributes:
        replay: The rows.
        columns: Columns whose values together name a stream.
        tables: Names of the ingest tables.
    """

    replay: Replay
    columns: tuple[str, ...]
    tables: tuple[str, ...]

    def streams(self, tick: int) -> pa.Array:
        """Return the stream of each row of a tick."""
        rows = self.replay.tick(tick)
        named = [rows.column(c).combine_chunks() for c in self.columns]
        return pc.binary_join_element_wise(*named, "/", null_handling="skip")

    def shares(self, course: Course) -> list[pa.Table]:
        """Return what each table gets in a course's tick: what waited first."""
        now = {s: t for s, t in course.entry.items() if s not in course.waiting}
        parts = [self._split(tick, self._waited(course, now, tick)) for tick in self._buffered(course)]
        parts.append(self._split(course.tick, now))
        return [pa.concat_tables(share) for share in zip(*parts, strict=True)]

    def report(self, log: CourseLog, ticks: range) -> Iterator[dict[str, Any]]:
        """Yield what each stream brought in a span of ticks, as rows of ``telemetry/streams`` but for the pipeline.

        Args:
            log: The courses of those ticks.
            ticks: The span.
        """
        clock, end = self.replay.clock, log.at(ticks[-1])
        began = log.begun + timedelta(seconds=ticks.start * clock.tick_s)
        rows = _counted(self.streams(tick) for tick in ticks)
        delays: dict[str, int] = {}
        for course in log.courses:
            if course.tick in ticks:
                delays |= {s: max(delays.get(s, 0), course.tick - since) for s, since in course.resumed.items()}
        for stream, table in sorted(end.entry.items()):
            since = end.waiting.get(stream)
            waiting = () if since is None else (self.streams(tick) for tick in range(since, end.tick + 1))
            yield {
                "time": began,
                "stream": stream,
                "app": self.tables[table],
                "rows": rows.get(stream, 0),
                "queue_rows": _counted(waiting).get(stream, 0),
                "latency_ms": delays[stream] * clock.tick_s * 1000 if stream in delays else None,
            }

    def _split(self, tick: int, entry: dict[str, int]) -> list[pa.Table]:
        """Return each table's rows of a tick; those of streams without an entry are left out."""
        rows, ids = self.replay.tick(tick), self.streams(tick)
        found = []
        for table in range(len(self.tables)):
            here = pa.array([s for s, t in entry.items() if t == table], pa.string())
            found.append(rows.filter(pc.is_in(ids, value_set=here)))
        return found

    def _buffered(self, course: Course) -> range:
        return range(min(course.resumed.values(), default=course.tick), course.tick)

    def _waited(self, course: Course, now: dict[str, int], tick: int) -> dict[str, int]:
        return {s: now[s] for s, since in course.resumed.items() if since <= tick}


def _counted(ids: Iterable[pa.Array]) -> dict[str, int]:
    arrays: Sequence[pa.Array] = list(ids)
    counts = pc.value_counts(pa.chunked_array(arrays, pa.string())) if arrays else []
    return {str(c["values"]): c["counts"].as_py() for c in counts}
