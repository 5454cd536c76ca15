"""Input streams: what each of them brought, and the ingest node at which a plan lets it enter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

INGEST_OPTIMIZER = "drfm"
"""Name of the optimizer that admits streams."""
TAKEN_IN = "until"
"""Key of its memory: the event time (ISO 8601, UTC) up to which it has taken streams in. Earlier time need not be
measured again."""


class LoadUnit(StrEnum):
    """Unit of a stream's load and of a node's capacity."""

    ROWS = "rows/s"
    """All rows count alike."""
    SLOTS = "slots"
    """Slot-seconds per second: rows and batches count by what they cost."""

    @property
    def counts(self) -> int:
        """Counts per second that make a load of 1: rows, or slot-milliseconds."""
        return 1000 if self is LoadUnit.SLOTS else 1


@dataclass(frozen=True)
class StreamCounts:
    """Row counts of input streams in periods of event time that are over.

    Counts are columns of equal length. A stream without a count in a period brought nothing in it.

    Attributes:
        version: Version of the telemetry that was read.
        since: Start of the first period, in the time of the rows themselves (UTC).
        until: End of the last period; the next one is not over yet.
        period_s: Length of a period, seconds.
        stream: Ids of the streams, each once, in alphabetical order.
        period: Period of each count, 0 for the period that starts at ``since``.
        index: Index in ``stream`` of each count.
        rows: Rows that came, >= 0; None if the telemetry lost them, or the stream of a fleet did not report.
        unit: Unit of loads: all rows count alike, or by the slots that rows and batches take.
        slot_ms: Slot-milliseconds that each count takes, >= 0, if the unit is slots; else empty. None as in ``rows``.
        slots: Slots of a node, >= 1, if the unit is slots; else 0.
        utilisation: Share of them that streams may fill, (0, 1].
        waiting: Load that each stream was behind with, moving average of the recent periods: rows, or
            slot-milliseconds if the unit is slots, > 0. Other streams were on time. None if not measured.
        down: Names of ingest nodes that must get no stream.
        fleet: Whether nodes are drivers of a fleet.
        removed: Streams of a fleet that its spec no longer describes; they leave at once, whatever they bring.
    """

    version: int
    since: datetime
    until: datetime
    period_s: int
    stream: tuple[str, ...]
    period: tuple[int, ...]
    index: tuple[int, ...]
    rows: tuple[int | None, ...]
    unit: LoadUnit = LoadUnit.ROWS
    slot_ms: tuple[int | None, ...] = ()
    slots: int = 0
    utilisation: float = 1.0
    waiting: Mapping[str, int] | None = None
    down: tuple[str, ...] = ()
    fleet: bool = False
    removed: tuple[str, ...] = ()

    @property
    def periods(self) -> int:
        """Number of periods."""
        return round((self.until - self.since).total_seconds() / self.period_s)


@dataclass(frozen=True)
class AdmissionPlan:
    """The ingest node of every stream, the nodes' expected load, and the accuracy of the last forecasts.

    Rates are loads in ``unit``, by default rows per second of event time. S streams, N nodes, H periods ahead, T newest
    periods with a forecast.

    Attributes:
        method: Planning method, for example ``horizon``.
        since: Start of the period that the plan is for (UTC).
        period_s: Length of a period, seconds.
        capacity: Rate up to which streams may fill a node.
        nodes: Names of the N nodes, released and unused ones included.
        stream: Ids of the S streams.
        before: Index of each stream's node; -1 without one.
        after: Index of each stream's node under the plan.
        forecast: Forecast rate of each stream for the newest period that is over; None for new streams.
        came: Rate of each stream in that period.
        total_forecast: Forecast a period ahead of the rate of all streams together, for each of the T periods.
        total_came: The real rate of those streams together, for each of the T periods.
        error: Sum of the forecasts' errors, stream by stream, over all that came in the T periods; None without
            a forecast.
        total_error: The same for the totals.
        loads: Expected rate of each node in each of the next periods under the plan, N of H each.
        holds: Periods from now on in which no node is expected to exceed its capacity, oversized streams left out.
        least_nodes: Lower bound on the nodes of any assignment that stays within capacity for as long.
        optimal: Proven: no plan with at most as many nodes costs less, node-periods and redirections together.
        oversized: Streams that are expected to be faster than a node; each has a node to itself.
        left: Streams that bring nothing any more.
        released: Names of the nodes that no stream enters at any more.
        query: Query workers for the next period; None if the spec does not say what they cost.
        merge: Merge workers for the next period.
        acts: True if nodes are a feed's ingest tables, or drivers of a fleet, and streams are redirected; else the plan
            is advice.
        unit: Unit of rates and of the capacity.
        down: Names of the nodes that must get no stream.
        missing: Nodes that would be needed in addition to hold all streams; those without room went to the least loaded
            nodes.
        lagging: Streams on nodes that are expected to exceed their capacity in the next period, if nodes are missing,
            the largest first.
        fleet: Whether nodes are drivers of a fleet.
        withheld: Names of the nodes that do not run and may not start, because the pipeline has no slots for them.
        budget_key: Spec key that limits these slots; empty if no node is withheld.
    """

    method: str
    since: datetime
    period_s: int
    capacity: float
    nodes: tuple[str, ...]
    stream: tuple[str, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    forecast: tuple[float | None, ...]
    came: tuple[float, ...]
    total_forecast: tuple[float, ...]
    total_came: tuple[float, ...]
    error: float | None
    total_error: float | None
    loads: tuple[tuple[float, ...], ...]
    holds: int
    least_nodes: int
    optimal: bool
    oversized: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    query: int | None = None
    merge: int | None = None
    acts: bool = False
    unit: LoadUnit = LoadUnit.ROWS
    down: tuple[str, ...] = ()
    missing: int = 0
    lagging: tuple[str, ...] = ()
    fleet: bool = False
    withheld: tuple[str, ...] = ()
    budget_key: str = ""

    @property
    def streams(self) -> int:
        """S."""
        return len(self.stream)

    @property
    def used(self) -> tuple[int, ...]:
        """Indices of the nodes that streams enter at under the plan."""
        return tuple(sorted(set(self.after)))

    @property
    def split(self) -> int:
        """Number of used nodes."""
        return len(self.used)

    @property
    def redirections(self) -> int:
        """Streams that change their node, without those whose node is down."""
        return sum(0 <= a != b for a, b in zip(self.before, self.after, strict=True)) - self.rescued

    @property
    def rescued(self) -> int:
        """Streams that leave a node that is down."""
        down = {index for index, name in enumerate(self.nodes) if name in self.down}
        return sum(a in down and a != b for a, b in zip(self.before, self.after, strict=True))

    @property
    def admitted(self) -> int:
        """Streams that get their first node."""
        return sum(a < 0 for a in self.before)

    @property
    def changes(self) -> bool:
        """Whether any stream is admitted, redirected or rescued, or any node released."""
        return bool(self.admitted or self.redirections or self.rescued or self.released)

    @property
    def highest_load(self) -> float:
        """Highest expected load of a node in the next periods, as a share of its capacity."""
        return max((rate for load in self.loads for rate in load), default=0.0) / self.capacity

    @property
    def ahead(self) -> int:
        """H."""
        return len(self.loads[0]) if self.loads else 0
