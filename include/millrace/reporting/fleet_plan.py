"""The last plan for a fleet's streams, and the moves that were made, as a person sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from millrace.model.admission import INGEST_OPTIMIZER, AdmissionPlan, LoadUnit
from millrace.model.decision import CARRIED_OUT, Decision
from millrace.model.deployment import Deployment, node_name

NAMED = 3
"""Most streams that a sentence names."""


@dataclass(frozen=True)
class PlanView:
    """The last plan: how many nodes it uses, how full they get, and how good its forecasts were.

    Attributes:
        decided: Time of its Decision (UTC).
        since: Start of the period that it is for (UTC).
        period_s: Length of a period, seconds.
        unit: Unit of its loads and its capacity.
        capacity: Load up to which streams may fill a node.
        nodes: Nodes that it uses.
        least_nodes: Lower bound on the nodes of any plan that stays within capacity for as long; None if a node
            exceeds it in the next period already.
        highest_load: Highest expected load of a node in the next periods, as a share of its capacity.
        holds: Periods from now on in which no node is expected to exceed its capacity.
        ahead: Periods that it looks ahead.
        missing: Nodes that would be needed in addition.
        lagging: Streams that are expected to lag because nodes are missing, the largest first.
        oversized: Streams that exceed a whole node.
        error: Error of the newest forecasts stream by stream, as a share of what came; None without a forecast.
        total_error: The same for all streams together.
        total_forecast: Forecast load of all streams together for each of the newest periods, oldest first.
        total_came: The load that came in them.
        not_done: Why its moves were not carried out; empty if they were, or if it has none.
    """

    decided: datetime
    since: datetime
    period_s: int
    unit: LoadUnit
    capacity: float
    nodes: int
    least_nodes: int | None
    highest_load: float
    holds: int
    ahead: int
    missing: int
    lagging: tuple[str, ...]
    oversized: tuple[str, ...]
    error: float | None
    total_error: float | None
    total_forecast: tuple[float, ...]
    total_came: tuple[float, ...]
    not_done: str = ""

    @property
    def sentence(self) -> str:
        """The plan for a person: nodes and the gap to the bound, how full they get, accuracy of the forecasts."""
        if not self.nodes:
            return "No stream has rows any more."
        oversized = f"Too large for one node: {_names(self.oversized)}." if self.oversized else ""
        return " ".join(filter(None, (self._bound, self._fullness, oversized, self._accuracy)))

    @property
    def _bound(self) -> str:
        nodes = f"{self.nodes} node{'s' * (self.nodes != 1)}"
        if self.missing:
            lagging = f" Without them these lag: {_names(self.lagging)}." if self.lagging else ""
            return f"{nodes}; {self.missing} more would be needed.{lagging}"
        if self.least_nodes is None:  # if they are too few, a bound on their number says nothing
            return f"{nodes}, too few for the next period."
        if self.nodes <= self.least_nodes:
            return f"{nodes}, the fewest possible."
        return f"{nodes}; no plan needs fewer than {self.least_nodes}."

    @property
    def _fullness(self) -> str:
        full, ahead = f"{100 * self.highest_load:.0f} % full", f"next {self.ahead} periods of {self.period_s} s"
        if self.holds >= self.ahead:
            return f"At most {full} in the {ahead}."
        return f"Streams fit for {self.holds} of the {ahead}; a node gets up to {full}."

    @property
    def _accuracy(self) -> str:
        if self.total_error is None or self.error is None:
            return "No forecast has come due yet."
        return f"Forecasts were off by {100 * self.total_error:.0f} % in total, {100 * self.error:.0f} % by stream."


def _names(streams: Sequence[str]) -> str:
    more = len(streams) - NAMED
    return ", ".join(streams[:NAMED]) + (f" and {more} more" if more > 0 else "")


def plan_of(decision: Decision | None) -> AdmissionPlan | None:
    """Return the plan for the streams in a Decision; None without one."""
    proposals = decision.proposals if decision else ()
    return next((p.admission for p in proposals if p.optimizer == INGEST_OPTIMIZER and p.admission), None)


def plan_view(decision: Decision | None, deployed: Deployment) -> PlanView | None:
    """Return the plan of a Decision for a person; None if it has none.

    Args:
        decision: The newest Decision with a plan.
        deployed: The newest Deployment.
    """
    plan = plan_of(decision)
    if decision is None or plan is None:
        return None
    return PlanView(
        decided=decision.time,
        since=plan.since,
        period_s=plan.period_s,
        unit=plan.unit,
        capacity=plan.capacity,
        nodes=plan.split,
        least_nodes=plan.least_nodes if plan.holds else None,
        highest_load=plan.highest_load,
        holds=plan.holds,
        ahead=plan.ahead,
        missing=plan.missing,
        lagging=plan.lagging,
        oversized=plan.oversized,
        error=plan.error,
        total_error=plan.total_error,
        total_forecast=plan.total_forecast,
        total_came=plan.total_came,
        not_done=_not_done(decision, plan, deployed),
    )


def _not_done(decision: Decision, plan: AdmissionPlan, deployed: Deployment) -> str:
    planned = dict(zip(plan.stream, plan.after, strict=True))
    entered = {stream: deployed.ingest.get(stream) for stream in planned}
    done = decision.action in CARRIED_OUT or planned == entered
    return "" if done or not plan.changes else f"Not carried out ({decision.action.value}): {decision.sentence}"


@dataclass(frozen=True)
class Move:
    """A stream that got another node: names of the nodes before and after, None for no node."""

    stream: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        """Describe it, for example ``orders node0 -> node1``."""
        if self.after is None:
            return f"{self.stream} leaves {self.before}"
        return f"{self.stream} {'enters' if self.before is None else f'{self.before} ->'} {self.after}"


@dataclass(frozen=True)
class Moves:
    """The moves of one version.

    Attributes:
        time: When it was made (UTC).
        version: Its number.
        reason: Why: the sentence of its Decision, or of the person who made it.
        moves: Its moves, those between two nodes first.
    """

    time: datetime
    version: int
    reason: str
    moves: tuple[Move, ...]

    def summary(self, most: int) -> str:
        """Name the first moves, and the number of the others."""
        named, more = ", ".join(map(str, self.moves[:most])), len(self.moves) - most
        return f"{named} and {more} more" if more > 0 else named


def recent_moves(versions: Sequence[tuple[datetime, Deployment]]) -> tuple[Moves, ...]:
    """Return the moves between successive versions, newest first.

    Args:
        versions: The newest Deployments of a pipeline and when each was made (UTC), newest first.
    """
    found = []
    for (time, after), (_, before) in pairwise(versions):
        names = {*before.ingest, *after.ingest}
        changed = sorted(name for name in names if before.ingest.get(name) != after.ingest.get(name))
        moves = [Move(name, _node(before, name), _node(after, name)) for name in changed]
        moves.sort(key=lambda move: move.before is None or move.after is None)
        if moves:
            found.append(Moves(time, after.version, after.reason, tuple(moves)))
    return tuple(found)


def _node(deployed: Deployment, stream: str) -> str | None:
    number = deployed.ingest.get(stream)
    return None if number is None else node_name(number)
