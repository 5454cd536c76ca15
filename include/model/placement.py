"""Key groups: what each of them brings, and where a plan would have them sit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class KeyGroups:
    """What each key group brought in a span, as columns of equal length. Missing is None, never 0.

    Attributes:
        version: Version of ``telemetry/key_groups`` that was read.
        since: Begin of the span, in the time of the rows themselves (UTC).
        until: Its end.
        operator: The keyed operator of each group.
        key_group: Its number within the operator.
        app: Where it sits.
        rows_per_s: Rows that it received.
        bytes_per_s: Their size.
        cpu_ratio: Cores that it kept busy; None where it was not measured.
        state_bytes: Size of its state at the end; None where it was not measured.
        producer: Index of the group that emits, of each flow.
        consumer: Index of the group that receives.
        flow_rows_per_s: Rows that passed from the one to the other.
    """

    version: int
    since: datetime
    until: datetime
    operator: tuple[str, ...]
    key_group: tuple[int, ...]
    app: tuple[str, ...]
    rows_per_s: tuple[float, ...]
    bytes_per_s: tuple[float, ...]
    cpu_ratio: tuple[float | None, ...]
    state_bytes: tuple[int | None, ...]
    producer: tuple[int, ...] = ()
    consumer: tuple[int, ...] = ()
    flow_rows_per_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class PlacementPlan:
    """Where every key group is to sit, what that changes, and the proof of how good it is.

    Attributes:
        method: How it was planned, for example ``joint``.
        resource: The resource that is balanced: the one that is used most.
        nodes: Names of the nodes.
        operator: The keyed operator of each group.
        key_group: Its number within the operator.
        load: Load of each group under the plan, points.
        before: Index of the node that each group sits on; -1 without one.
        after: Index of the node that each group is to sit on.
        loads_before: Load of each node before, points.
        loads_after: The same under the plan.
        distance_before: Load distance before: the largest deviation of a node from the mean, points.
        distance_after: The same under the plan.
        bound: No plan within the same budget has a smaller load distance, points.
        collocation_before: Share of all rows that stay within a node, before, 0..1.
        collocation_after: The same under the plan.
        pairs: Pairs of groups that the plan brings together.
        spent: What its moves cost, in the unit of ``budget``; first placements cost nothing.
        budget: What they may cost; None for no limit.
        stage: How far the search came.
        seed: Seed that gives the same plan again.
    """

    method: str
    resource: str
    nodes: tuple[str, ...]
    operator: tuple[str, ...]
    key_group: tuple[int, ...]
    load: tuple[float, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    loads_before: tuple[float, ...]
    loads_after: tuple[float, ...]
    distance_before: float
    distance_after: float
    bound: float
    collocation_before: float
    collocation_after: float
    pairs: int
    spent: float
    budget: float | None
    stage: str
    seed: int

    @property
    def moves(self) -> int:
        """Groups that move from one node to another."""
        return sum(0 <= a != b for a, b in zip(self.before, self.after, strict=True))

    @property
    def placed(self) -> int:
        """Groups that get their first node."""
        return sum(a < 0 <= b for a, b in zip(self.before, self.after, strict=True))

    @property
    def gap(self) -> float:
        """Load distance over the proven minimum, points."""
        return max(0.0, self.distance_after - self.bound)
