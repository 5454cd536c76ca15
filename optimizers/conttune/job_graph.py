"""An app as tuners see it: a DAG of operators, some of which can be sized.

If the stages of an app take turns on its slots (Spark's micro-batches), the whole app is the one operator: its p is the
app's slots, its processing ability 1 / slope of the batch duration. If operators own their slots (the paper's pipelined
engines), each operator with a p of its own in the Deployment is sized.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from millrace.model.arrival import ArrivalBasis
from millrace.model.deployment import PARALLELISM, SLOTS, Change, Deployment
from millrace.model.signals import AppSignals, Edge, OperatorSignals

EdgeId = tuple[str, str]
"""Ids of an edge's producer and consumer."""


@dataclass(frozen=True)
class Operator:
    """One operator in one period. Missing is None, never 0.

    Attributes:
        app: Its app.
        id: Its id within the app; None if it is the whole app.
        now: The p that is set; None if it cannot be sized (a source, or one the Deployment does not name).
        ran: The p that really ran.
        rate: Rows per second that it processed.
        arrival: Rows per second that arrive from outside, processed or not; None if it is no source.
        ability: Processing ability measured in this period, rows per second.
        ability_at: The p of that measurement.
        ability_error: Its standard error, >= 0.
        output_throughput: DS2's true output rate, rows per second.
        busy_ratio: Share of its slots' time that was useful, 0..1.
        backpressured_ratio: Share of time in which it could not work, or could not keep up, 0..1.
        samples: Batches or periods behind the ability.
        recent_arrival: ``arrival`` over the newest third of the period; None if too little of it is known.
        arrival_basis: How its arrival is known, if it is the whole app.
        tasks: Tasks that take turns on its slots; None if unknown or irrelevant.
        request: The p that the Deployment requests, if a cluster has no room for more than ``now``; otherwise None.
        span_s: Length of the span, up to the end of the period, over which ``arrival`` is averaged, seconds.
    """

    app: str
    id: str | None
    now: int | None
    ran: int | None
    rate: float | None
    arrival: float | None
    ability: float | None
    ability_at: int | None
    ability_error: float
    output_throughput: float | None
    busy_ratio: float | None
    backpressured_ratio: float | None
    samples: int = 1
    recent_arrival: float | None = None
    arrival_basis: ArrivalBasis = ArrivalBasis.COUNTED
    tasks: int | None = None
    request: int | None = None
    span_s: float | None = None

    @property
    def name(self) -> str:
        """Its name in the observations."""
        return self.app if self.id is None else f"{self.app}/{self.id}"

    @property
    def requested(self) -> int:
        """The p that the Deployment requests; 0 if it cannot be sized."""
        return self.request or self.now or 0

    def change(self, target: int) -> Change:
        """Return the change of its p to ``target``; only for operators that can be sized."""
        return Change(self.app, SLOTS if self.id is None else PARALLELISM, self.requested, target, self.id)


@dataclass(frozen=True)
class Job:
    """One app's operators in topological order, and the edges between those that were measured."""

    app: AppSignals
    operators: tuple[Operator, ...]
    edges: tuple[Edge, ...]

    @cached_property
    def sizable(self) -> tuple[Operator, ...]:
        """Operators that can be sized, in topological order."""
        return tuple(o for o in self.operators if o.now is not None)

    @cached_property
    def by_id(self) -> Mapping[str | None, Operator]:
        """Operators by their id."""
        return {o.id: o for o in self.operators}

    @cached_property
    def into(self) -> Mapping[str | None, Sequence[Edge]]:
        """Edges by the id of their consumer; every operator has an entry."""
        edges: dict[str | None, list[Edge]] = {o.id: [] for o in self.operators}
        for edge in self.edges:
            edges[edge.consumer].append(edge)
        return edges


def build_job(app: AppSignals, current: Deployment, span_s: float | None = None) -> Job:
    """Return an app as a DAG of operators; an app without operators in the Deployment is sized as a whole.

    Args:
        app: The app's signals.
        current: The Deployment.
        span_s: Length of the period, seconds.
    """
    deployed = current.apps.get(app.app)
    owned = deployed.parallelism if deployed else {}
    if not owned:
        request = deployed.slots if deployed and deployed.slots > app.slots else None
        return Job(app, (replace(whole_app(app), request=request, span_s=span_s),), ())
    measured = {o.operator: o for o in app.operators}
    edges = tuple(e for e in app.edges if e.producer in measured and e.consumer in measured)
    ordered = [_operator(app.app, measured[name], owned.get(name)) for name in by_producers(measured, edges)]
    return Job(app, tuple(replace(o, span_s=span_s) for o in ordered), edges)


def whole_app(app: AppSignals) -> Operator:
    """Return an app as one operator: its slots are its p."""
    capacity = app.capacity or app.first_batches
    return Operator(
        app=app.app,
        id=None,
        now=app.slots,
        ran=app.parallelism,
        rate=app.processed_rows_per_s,
        arrival=app.arrival_rows_per_s,
        ability=capacity.rows_per_s if capacity else None,
        ability_at=capacity.parallelism if capacity else None,
        ability_error=capacity.rows_per_s_error if capacity else 0.0,
        output_throughput=None,
        busy_ratio=app.slot_busy_ratio,
        backpressured_ratio=app.backpressured_ratio,
        samples=capacity.batches if capacity else 0,
        recent_arrival=app.arrival_recent_rows_per_s,
        arrival_basis=app.arrival_basis,
        tasks=app.tasks,
    )


def _operator(app: str, measured: OperatorSignals, now: int | None) -> Operator:
    return Operator(
        app=app,
        id=measured.operator,
        now=now,
        ran=measured.parallelism,
        rate=measured.rows_in_per_s,
        arrival=measured.arrival_rows_per_s,
        ability=measured.throughput,
        ability_at=measured.parallelism,
        ability_error=measured.throughput_error or 0.0,
        output_throughput=measured.output_throughput,
        busy_ratio=measured.busy_ratio,
        backpressured_ratio=measured.backpressured_ratio,
        recent_arrival=measured.arrival_recent_rows_per_s,
    )


def by_producers(names: Iterable[str], edges: Sequence[Edge]) -> list[str]:
    """Return operators or apps by name, producers first; in their given order if the edges have a cycle."""
    given = list(names)
    sorter: TopologicalSorter[str] = TopologicalSorter({name: () for name in given})
    for edge in edges:
        sorter.add(edge.consumer, edge.producer)
    try:
        return list(sorter.static_order())
    except CycleError:
        return given
