"""A fleet as a person sees it: its nodes, where each stream runs, loads now and forecast, the last plan, the moves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from millrace.fleet.discovery import Found
from millrace.fleet.status import StreamStatus
from millrace.fleet.streams import Phase
from millrace.model.admission import AdmissionPlan, LoadUnit
from millrace.model.decision import Decision
from millrace.model.deployment import Deployment, node_name
from millrace.model.signals import Signals
from millrace.reporting.fleet_plan import Moves, PlanView, plan_of, plan_view, recent_moves
from millrace.reporting.fleet_reports import NodeReport, NodeState

HOLDS = (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)
"""Phases in which a stream can have a query on a node, and so a lock on its checkpoint."""
WITHOUT_REPORT = {NodeState.DOWN: "its node is down", NodeState.STOPPED: "stopped"}
"""State of a stream that no driver reports, by the state of its node; otherwise it waits for its node."""


@dataclass(frozen=True)
class NodeView:
    """One node. Loads are in the plan's unit; None if unknown.

    Attributes:
        name: Its name.
        state: Its state.
        slots: Slots of its driver.
        streams: Streams on it, including those that move away.
        failing: Those of them that fail.
        load: Their load in the newest period that is over.
        forecast: Load that is expected in the next period; None also if the streams do not run as planned.
        capacity: Load up to which streams may fill it.
        share: ``load`` over ``capacity``.
    """

    name: str
    state: NodeState
    slots: int
    streams: int
    failing: int
    load: float | None
    forecast: float | None
    capacity: float | None
    share: float | None


@dataclass(frozen=True)
class StreamView:
    """One stream. Loads are in the plan's unit; None if unknown.

    Attributes:
        stream: Its name.
        node: Name of the node that runs it, or has to; empty if it has none.
        state: Its state.
        moves_to: Name of the node that takes it over, while its old node still has it; None if it does not move.
        failures: Failures since its last successful batch.
        told: What is wrong with it, as a sentence; empty if nothing is.
        load: Its load in the newest period that is over.
        forecast: The load that was forecast for that period.
        share: ``load`` over the capacity of a node.
        arrival_rows_per_s: Rows per second that arrived in the last evaluation's period.
        backlog_rows: Rows that waited at its end.
    """

    stream: str
    node: str
    state: str
    moves_to: str | None
    failures: int
    told: str
    load: float | None
    forecast: float | None
    share: float | None
    arrival_rows_per_s: float | None
    backlog_rows: int | None

    @property
    def failing(self) -> bool:
        """Whether it has failed since its last successful batch."""
        return self.failures > 0

    @property
    def notable(self) -> bool:
        """Whether it fails, moves, or does not run."""
        return self.failing or self.moves_to is not None or self.state != Phase.RUNNING

    @property
    def state_text(self) -> str:
        """Its state, and where it moves."""
        return self.state if self.moves_to is None else f"{self.state}, moves to {self.moves_to}"


@dataclass(frozen=True)
class FleetView:
    """A fleet.

    Attributes:
        pipeline: Its name.
        version: Version of its newest Deployment.
        unit: Unit of loads.
        nodes: Its nodes, by number.
        streams: Its streams by node, the largest load first; those without a node last.
        plan: The last plan; None before the first.
        moves: Recent moves, newest first.
        problems: One sentence for each thing that is wrong with the fleet as a whole, such as a folder without data.
    """

    pipeline: str
    version: int
    unit: LoadUnit
    nodes: tuple[NodeView, ...]
    streams: tuple[StreamView, ...]
    plan: PlanView | None
    moves: tuple[Moves, ...]
    problems: tuple[str, ...]

    @property
    def well(self) -> bool:
        """Whether no stream fails and no node is down."""
        return not any(s.failing for s in self.streams) and all(n.state is not NodeState.DOWN for n in self.nodes)

    def listed(self, most: int) -> tuple[StreamView, ...]:
        """Return at most ``most`` streams: those that fail, move or do not run, then the largest; in their order."""
        ranks = sorted(self.streams, key=lambda s: (not s.failing, not s.notable, -(s.load or 0.0)))
        chosen = {stream.stream for stream in ranks[:most]}
        return tuple(stream for stream in self.streams if stream.stream in chosen)


def fleet_view(
    deployed: Deployment,
    reports: Mapping[str, NodeReport],
    found: Found,
    signals: Signals | None,
    planned: Decision | None,
    versions: Sequence[tuple[datetime, Deployment]] = (),
) -> FleetView:
    """Return a fleet as it is now.

    Args:
        deployed: Its newest Deployment.
        reports: What is known of each node, in the order of their numbers.
        found: The streams that exist now.
        signals: Measurements of its last evaluation; None without any.
        planned: Its newest Decision with a plan for its streams; None without one.
        versions: Its newest Deployments and when each was made (UTC), newest first.
    """
    plan, measured = plan_of(planned), _measured(signals, deployed)
    reported = {name for report in reports.values() for name in report.streams}
    names, loads = {*found.streams, *deployed.ingest, *reported}, _Loads.of(plan)
    streams = [_stream(name, deployed, reports, loads, measured) for name in names]
    order = {node: number for number, node in enumerate(reports)}
    streams.sort(key=lambda s: (order.get(s.node, len(order)), -(s.load or 0.0), s.stream))
    return FleetView(
        pipeline=deployed.pipeline,
        version=deployed.version,
        unit=LoadUnit.ROWS if plan is None else plan.unit,
        nodes=tuple(_node(name, number, deployed, reports[name], streams, plan) for name, number in order.items()),
        streams=tuple(streams),
        plan=plan_view(planned, deployed),
        moves=recent_moves(versions),
        problems=(
            *found.problems,
            *(report.problem for report in reports.values() if report.problem),
            *_shared_sinks(reports.values()),
        ),
    )


def _shared_sinks(reports: Iterable[NodeReport]) -> Iterator[str]:
    """Yield a sentence for each sink of several streams; a node refuses that, but does not know those of others."""
    writers: dict[str, set[str]] = {}
    for status in (status for report in reports for status in report.streams.values() if status.sink is not None):
        writers.setdefault(status.sink or "", set()).add(status.stream)
    for sink, streams in sorted(writers.items()):
        if len(streams) > 1:
            path = sink.partition(":")[2]
            yield f"Streams {', '.join(sorted(streams))} write to the same {path}: give each a sink of its own."


def load_text(load: float | None, unit: LoadUnit) -> str:
    """Return a load as text without its unit; empty if it is unknown."""
    return "" if load is None else f"{load:,.0f}" if unit is LoadUnit.ROWS else f"{load:,.2f}"


@dataclass(frozen=True)
class _Loads:
    """Loads of the streams in the newest period that is over, as they came and as they were forecast."""

    came: Mapping[str, float]
    forecast: Mapping[str, float | None]
    capacity: float | None

    @classmethod
    def of(cls, plan: AdmissionPlan | None) -> _Loads:
        if plan is None:
            return cls({}, {}, None)
        came = dict(zip(plan.stream, plan.came, strict=True))
        return cls(came, dict(zip(plan.stream, plan.forecast, strict=True)), plan.capacity)


Measured = Mapping[tuple[str, str], tuple[float | None, int | None]]


def _measured(signals: Signals | None, deployed: Deployment) -> Measured:
    """Return rows per second that arrive and rows that wait, by node and stream."""
    found = {}
    for app in signals.apps if signals else ():
        for query in app.queries:
            found[app.app, query.query] = (query.arrival_rows_per_s, query.backlog_rows)
        alone = [stream for stream, number in deployed.ingest.items() if node_name(number) == app.app]
        if not app.queries and len(alone) == 1:  # an app of one query has no figures by query
            found[app.app, alone[0]] = (app.arrival_rows_per_s, app.backlog_rows)
    return found


def _stream(
    name: str, deployed: Deployment, reports: Mapping[str, NodeReport], loads: _Loads, measured: Measured
) -> StreamView:
    number = deployed.ingest.get(name)
    target = node_name(number) if number is not None and node_name(number) in reports else ""
    own = reports[target].streams.get(name) if target else None
    holder = next((node for node in reports if node != target and _holds(reports[node].streams.get(name))), None)
    moves = holder is not None and (own is None or own.phase is not Phase.RUNNING)
    node = holder if moves and holder else target
    told = reports[node].streams.get(name) if node else None
    if told is not None:
        state = str(told.phase)
    else:
        state = WITHOUT_REPORT.get(reports[node].state, "waits for its node") if node else "waits for a node"
    load, seen = loads.came.get(name), measured.get((node, name), (None, None))
    return StreamView(
        stream=name,
        node=node,
        state=state,
        moves_to=target if moves and target else None,
        failures=max((status.failures for status in (told, own) if status), default=0),
        told=_wrong((told, own), moves=moves),
        load=load,
        forecast=loads.forecast.get(name),
        share=None if load is None or not loads.capacity else load / loads.capacity,
        arrival_rows_per_s=seen[0],
        backlog_rows=seen[1],
    )


def _holds(status: StreamStatus | None) -> bool:
    return status is not None and status.phase in HOLDS


def _wrong(told: Iterable[StreamStatus | None], *, moves: bool) -> str:
    """Return what is wrong with a stream; to wait for the old node's lock is part of a move."""
    for status in told:
        if status is not None and (status.failures or (status.phase is Phase.BLOCKED and not moves)):
            return status.sentence
    return ""


def _node(
    name: str,
    number: int,
    deployed: Deployment,
    report: NodeReport,
    streams: Sequence[StreamView],
    plan: AdmissionPlan | None,
) -> NodeView:
    here = [stream for stream in streams if stream.node == name]
    load = None if plan is None else sum(stream.load or 0.0 for stream in here)
    capacity = None if plan is None else plan.capacity
    return NodeView(
        name=name,
        state=report.state,
        slots=deployed.apps[name].slots,
        streams=len(here),
        failing=sum(stream.failing for stream in here),
        load=load,
        forecast=_forecast(plan, number, deployed),
        capacity=capacity,
        share=None if load is None or not capacity else load / capacity,
    )


def _forecast(plan: AdmissionPlan | None, number: int, deployed: Deployment) -> float | None:
    """Return a node's load in the next period; None if it has other streams than the plan wants."""
    if plan is None or number >= len(plan.loads) or not plan.ahead:
        return None
    planned = {stream for stream, node in zip(plan.stream, plan.after, strict=True) if node == number}
    entered = {stream for stream in plan.stream if deployed.ingest.get(stream) == number}
    return plan.loads[number][0] if planned == entered else None
