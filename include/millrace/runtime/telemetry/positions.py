"""A query's position in its sources: rows waiting, rows ever committed, rows read, each exact or None.

Each source has a class of its kind (:mod:`millrace.runtime.telemetry.sources`). Several sources are added up. If the
rows of one are unknown, the sum is None, as half a backlog would mislead.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from millrace.runtime.telemetry.sources.api import UNKNOWN, ArrivalBasis, Position, Progress, Source, SourcePosition
from millrace.runtime.telemetry.sources.kinds import find
from millrace.runtime.telemetry.sources.limited import LimitedPosition

COUNTS = (ArrivalBasis.COUNTED, ArrivalBasis.PLANNED)
BY_LIMIT = (ArrivalBasis.TAKEN, ArrivalBasis.READ)
LOG = logging.getLogger(__name__)

Ask = Callable[[SourcePosition, Progress], Position]


class Positions:
    """Adds up the sources of one query run.

    Args:
        known: The query's sources, by description; others are found by their description alone.
        limits: Maximum rows per batch of each source, by description: ``inf`` if unlimited, None if not in rows.
    """

    def __init__(
        self,
        known: Mapping[str, SourcePosition] = MappingProxyType({}),
        limits: Mapping[str, float | None] = MappingProxyType({}),
    ) -> None:
        self._known, self._limits = dict(known), limits
        self._reported: set[str] = set()

    @classmethod
    def following(cls, sources: Sequence[Source]) -> Positions:
        """Return the positions of a query's sources, each by the class of its kind."""
        return cls({s.description: find(s) for s in sources}, {s.description: s.limit for s in sources})

    def of(self, sources: Sequence[Progress]) -> Position:
        """Return the position after a batch, from the ``sources`` of its progress event."""
        return self._total(sources, lambda source, entry: source.after(entry))

    def at_rest(self, sources: Sequence[Progress]) -> Position:
        """Return the position of a query that has run no batch since the one with these ``sources``.

        Rows may wait anyway: Kafka's source starts no batch below ``minOffsetsPerTrigger``.
        """
        total = self._total(sources, lambda source, entry: source.at_rest(entry.get("endOffset")))
        return total if total.basis is None or total.basis in COUNTS else replace(total, backlog=0)

    def _total(self, sources: Sequence[Progress], ask: Ask) -> Position:
        each = [self._asked(source, ask) for source in sources]
        if each and all(position.end is not None for position in each):
            return _counted(each)
        if each and all(p.end is not None or p.basis is ArrivalBasis.LISTED for p in each):
            return Position(backlog=_sum([p.backlog for p in each]), basis=ArrivalBasis.LISTED)
        shown = {self._by_limit(source, p, ask) for source, p in zip(sources, each, strict=True)}
        weakest = (None, ArrivalBasis.READ, ArrivalBasis.TAKEN)
        return Position(basis=next((basis for basis in weakest if basis in shown), None))

    def _asked(self, entry: Progress, ask: Ask) -> Position:
        name = _name(entry)
        try:
            return ask(self._source(name), entry)
        except Exception as error:
            if name not in self._reported:  # a source that cannot be counted is no reason to stop
                self._reported.add(name)
                LOG.warning("The backlog of %s is unknown: %s", name, error)
            return UNKNOWN

    def _by_limit(self, entry: Progress, position: Position, ask: Ask) -> ArrivalBasis | None:
        """Return whether a source was read to its end, also if it counts: others of the query do not."""
        if position.basis in BY_LIMIT:
            return position.basis
        name = _name(entry)
        if position.end is None and not self._source(name).reads_all_below_limit:
            return None
        return ask(LimitedPosition(self._limits.get(name, math.nan)), entry).basis

    def _source(self, name: str) -> SourcePosition:
        if name not in self._known:
            self._known[name] = find(Source(name))
        return self._known[name]


def _counted(each: Sequence[Position]) -> Position:
    planned = any(position.basis is ArrivalBasis.PLANNED for position in each)
    basis = ArrivalBasis.PLANNED if planned else ArrivalBasis.COUNTED
    backlog, end, read = (_sum([getattr(p, name) for p in each]) for name in ("backlog", "end", "read"))
    lag = {partition: rows for position in each for partition, rows in position.lag.items()}
    return Position(backlog, end, read, basis, lag)


def _sum(rows: Sequence[int | None]) -> int | None:
    return None if None in rows else sum(r for r in rows if r is not None)


def _name(entry: Progress) -> str:
    return str(entry.get("description", ""))
