"""Measurements of one period: the optimizers' only input, with the Deployment and their Memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from millrace.model import row_wait
from millrace.model.admission import StreamCounts
from millrace.model.arrival import ArrivalBasis
from millrace.model.join import JoinSignals
from millrace.model.key_map import KeySample
from millrace.model.objective import Bounds, Objective
from millrace.model.placement import PartitionLoads, PotentialPlacement

OWN_BUDGET = "budget.slots"
"""Key of a budget that is the pipeline's own; another one is its share of what all pipelines may have."""


@dataclass(frozen=True)
class Observation:
    """One measured point of throughput (a row of ``control/observations``; the GP's training data).

    Attributes:
        operator: ``app`` for a whole app, ``app/query`` for one of its queries, ``app/operator`` for one operator.
        parallelism: The p that really ran, >= 1.
        throughput: Throughput of that p, rows per second, > 0.
        noise: Standard error of the throughput, >= 0, rows per second.
        batches: Healthy batches behind the point, >= 1.
        time: When it was measured (UTC).
    """

    operator: str
    parallelism: int
    throughput: float
    noise: float
    batches: int
    time: datetime


@dataclass(frozen=True)
class Capacity:
    """Fitted cost of an app's micro-batches: duration = fixed_s + rows / rows_per_s.

    Attributes:
        parallelism: The p of the fit, >= 1.
        fixed_s: o(p), the cost of a batch without rows, seconds, >= 0.
        rows_per_s: PA(p) of the whole app, 1 / slope, > 0.
        rows_per_s_error: Standard error of ``rows_per_s``, >= 0.
        batches: Healthy batches behind the fit.
    """

    parallelism: int
    fixed_s: float
    rows_per_s: float
    rows_per_s_error: float
    batches: int


@dataclass(frozen=True)
class OperatorSignals:
    """One operator over one period. Missing is None, never 0.

    Attributes:
        operator: The operator's id.
        name: Spark's name of the plan node.
        parallelism: Median of the p that really ran; null if unknown.
        rows_in_per_s: Mean input rate over the period.
        useful_s_per_row: Useful time per row, waits included; null without rows.
        throughput: p * rows / useful time (ContTune, Section 3); null without rows.
        throughput_error: Standard error of the above, >= 0.
        rows_out_per_s: Mean output rate over the period.
        output_throughput: p * rows out / useful time (DS2's true output rate); for a source, what it would emit if
            nothing held it back.
        arrival_rows_per_s: Arrival rate at a source from outside; null for an operator that is no source.
        arrival_recent_rows_per_s: The same over the newest part of the period, about a third.
        backlog_rows: Rows that wait at a source at the end of the period; null for an operator that is no source.
        busy_ratio: Share of the time of its p tasks that was useful, 0..1.
        backpressured_ratio: Share of time in which its consumers kept it from working, 0..1.
    """

    operator: str
    name: str
    parallelism: int | None
    rows_in_per_s: float | None
    useful_s_per_row: float | None
    throughput: float | None
    throughput_error: float | None = None
    rows_out_per_s: float | None = None
    output_throughput: float | None = None
    arrival_rows_per_s: float | None = None
    arrival_recent_rows_per_s: float | None = None
    backlog_rows: int | None = None
    busy_ratio: float | None = None
    backpressured_ratio: float | None = None


@dataclass(frozen=True)
class Edge:
    """Rows that one operator passed to another, or one app to another.

    Attributes:
        producer: Id of the operator that emits them, or the app's name.
        consumer: Id of the operator that receives them, or the app's name.
        rows_per_s: Mean over the period, or over the producer's last batches if it is an app, counted where they
            arrive; null if unknown.
        taken_rows_per_s: Rows per second that the producer took in for them; null for its mean over the period.
        lump_rows: Most rows that arrived at once, at the end of a producer's batch.
        share: Share of the rows that the consumer reads, 0..1.
    """

    producer: str
    consumer: str
    rows_per_s: float | None
    taken_rows_per_s: float | None = None
    lump_rows: float = 0.0
    share: float = 1.0


@dataclass(frozen=True)
class QuerySignals:
    """One query of an app that runs several, over one period. Missing is None, never 0.

    Attributes:
        query: Its name, or its id if it has none.
        arrival_rows_per_s: Its true arrival rate.
        backlog_rows: Its rows waiting at the end of the period.
        slots_busy: Mean number of slots that its tasks occupied, waits included.
        healthy_batches: Batches that count for capacity.
        capacity: Fitted cost of its batches without the other queries' tasks; None until it can be fitted.
    """

    query: str
    arrival_rows_per_s: float | None
    backlog_rows: int | None
    slots_busy: float | None
    healthy_batches: int
    capacity: Capacity | None


@dataclass(frozen=True)
class AppSignals:
    """One app over one period. Missing is None, never 0.

    Attributes:
        app: The app's name.
        slots: Tasks that can run at once.
        parallelism: The p that really ran: the median over batches of min(tasks, slots).
        source_splits: True if fewer tasks than slots ran because the source offered too few splits.
        arrival_rows_per_s: True arrival rate (change of the source's end per second), not the processing rate.
            ``arrival_basis`` says how it is known, and whether it is only a lower bound.
        arrival_recent_rows_per_s: The same over the newest part of the period, about a third. If it is far from the
            mean, the rate changed within the period. None if too little of it is known.
        processed_rows_per_s: Processing rate.
        backlog_rows: Rows waiting at the end of the period.
        backlog_growth_rows_per_s: Change of the backlog per second over the period.
        batches: Batches in the period, contaminated ones included.
        healthy_batches: Batches that count for capacity.
        busy_ratio: Share of the period spent inside batches, 0..1.
        backpressured_ratio: Share of the period's batches that ran without a pause and left more rows waiting
            than arrive during the longest batch that the objective plans for (:meth:`Objective.planned_batch_s`),
            0..1 (ContTune's backPressurePer, as a ratio).
        slot_busy_ratio: Occupied slot time over slots * period, waits included, 0..1 (the state
            rule's CPU on Spark).
        capacity: Fitted cost; None until it can be fitted.
        batch_rows_limit: Rows of a full batch if the source is read in limited batches (``maxFilesPerTrigger``
            and the like); None if no batch was full.
        largest_batch_rows: Rows of the largest of the recent batches; None if unknown.
        restart_lag_rows: Part of the backlog that Millrace's own last restart caused and that has not
            drained yet.
        memory_deaths: Executors of the present size that recently died of memory.
        gc_ratio: Share of the time of its tasks in the period that garbage collection took, 0..1; None if unknown.
        executor_deaths: Executors that died since the last change, of anything but memory.
        operators: The app's operators.
        edges: Rows between the operators; empty if only the app as a whole is measured.
        arrival_basis: How the arrival rate and the backlog are known.
        first_batches: Cost of a batch from the first batches at the present slots, while the app settles or has no fit,
            and more rows wait than its last or its full batches read; else None. Less certain than ``capacity``.
        empty_batches: Healthy batches with so few rows that their cost says nothing about a row's, those without rows
            included.
        first_batch_s: How long the first batch of its driver has been running, seconds; None if a batch has ended.
        sources: Rows read recently from each source, by the source's name in lineage.
        sinks: Names in lineage of everything that its queries write to, as far as it is known.
        settling: True while this one of several apps settles, or does not run the newest version yet.
        batch_limits: Options of its sources that limit a batch (``maxFilesPerTrigger``), with their values; empty if
            none is known, or if several queries run.
        change_s: Median cost of recent changes of slots, seconds: downtime, plus the time that the next batches took
            beyond the usual. None if too few changes were measured.
        restarts: True if a change of slots restarts the driver.
        lag: Rows waiting at the end of the period in the source partitions (``topic/partition``) with the most; empty
            if the source does not report it.
        tasks: Tasks of the stage that takes most of a batch; None if batches differ, or if their number may follow the
            slots.
        queries: The app's queries if several run. The rows above are then weighted by cost, as rows of the queries'
            mix, and the capacity is for all of them. Empty for an app of one query.
        running_tasks: Tasks of queries in real-time mode, which run all the time; None if no query is in that mode.
        trigger_s: Interval of the query's trigger, seconds; rows wait that long by the script's own choice. 0 if
            batches follow each other as fast as possible, or nothing is known.
        since: Start of its own period if it is one of several apps (UTC): their triggers may differ. None for that of
            the signals.
        until: End of that period, the time of its newest row (UTC): another app may have reported since.
    """

    app: str
    slots: int
    parallelism: int | None
    source_splits: bool
    arrival_rows_per_s: float | None
    processed_rows_per_s: float | None
    backlog_rows: int | None
    backlog_growth_rows_per_s: float | None
    batches: int
    healthy_batches: int
    busy_ratio: float | None
    backpressured_ratio: float | None
    slot_busy_ratio: float | None
    capacity: Capacity | None
    restart_lag_rows: int | None = None
    batch_rows_limit: int | None = None
    arrival_recent_rows_per_s: float | None = None
    memory_deaths: int = 0
    gc_ratio: float | None = None
    executor_deaths: int = 0
    operators: tuple[OperatorSignals, ...] = ()
    edges: tuple[Edge, ...] = ()
    arrival_basis: ArrivalBasis = ArrivalBasis.COUNTED
    tasks: int | None = None
    lag: Mapping[str, int] = field(default_factory=dict)
    queries: tuple[QuerySignals, ...] = ()
    running_tasks: int | None = None
    trigger_s: float = 0.0
    first_batches: Capacity | None = None
    change_s: float | None = None
    restarts: bool = True
    sources: Mapping[str, int] = field(default_factory=dict)
    sinks: tuple[str, ...] = ()
    settling: bool = False
    batch_limits: Mapping[str, int] = field(default_factory=dict)
    first_batch_s: float | None = None
    empty_batches: int = 0
    largest_batch_rows: int | None = None
    since: datetime | None = None
    until: datetime | None = None

    def sustainable(self, objective: Objective, capacity: Capacity | None = None) -> float | None:
        """Return the sustainable throughput, rows per second: the highest rate at which no row waits too long.

        Args:
            objective: The pipeline's objective.
            capacity: Capacity at other slots; its own by default. If neither is known, None is returned.
        """
        return self.sustainable_with(self.batch_rows_limit, objective, capacity)

    def sustainable_with(
        self, limit: int | None, objective: Objective, capacity: Capacity | None = None
    ) -> float | None:
        """Return the sustainable throughput with another limit of batches, rows per second.

        Args:
            limit: Rows that a batch holds at most; None if it is not limited.
            objective: The pipeline's objective.
            capacity: As for :meth:`sustainable`.
        """
        known = capacity or self.capacity
        if known is None:
            return None
        return row_wait.sustainable(known.rows_per_s, known.fixed_s, limit, objective.max_lag_s, self.trigger_s)


@dataclass(frozen=True)
class Signals:
    """Everything that one period of one pipeline measured, stored with the Decision, so a replay can use it.

    Attributes:
        pipeline: Name of the pipeline.
        since: Start of the period (UTC).
        until: End of the period (UTC): the newest telemetry it contains.
        telemetry_version: Version of ``telemetry/batches`` read up to; the next evaluation's cursor.
        deployment_version: The Deployment version that ran, the base of any proposal.
        apps: The pipeline's apps.
        observations: The most recent observations of every (operator, level p), oldest first.
        objective: The spec's objective.
        bounds: The spec's bounds; of a pipeline of several apps, those of the first.
        app_bounds: The bounds of each of several apps, by name.
        edges: Rows between several apps: what one writes and another reads.
        circle: Names of apps that feed each other in a circle; there are no edges then.
        budget: Most slots of all apps together; None for any number.
        budget_key: The spec key that sets it.
        priority: Weight against other pipelines if slots are scarce, > 0.
        unmeasured: Those of several apps that have not reported, or not lately.
        fixed: Apps whose slots no tuner sets: nodes of a fleet, which get streams instead.
        keys: Samples of the keys by which its queries spread rows, by name; empty unless its spec wants maps of keys.
        settling: True while the last reconfiguration is open, or too few healthy batches have followed it.
        partition_loads: Recent cost of its state partitions; None if no optimizer places them, or none was sampled.
        potential: What placement alone would change; None unless the optimizer that places partitions has worked it out
            for this evaluation.
        streams: Rows of input streams that no optimizer has taken in yet, if they were measured; else None.
        join: Measurements of its stream join, if it has one; else None.
    """

    pipeline: str
    since: datetime
    until: datetime
    telemetry_version: int
    deployment_version: int
    apps: tuple[AppSignals, ...]
    observations: tuple[Observation, ...] = ()
    objective: Objective = field(default_factory=Objective)
    bounds: Bounds = field(default_factory=Bounds)
    settling: bool = False
    partition_loads: PartitionLoads | None = None
    potential: PotentialPlacement | None = None
    streams: StreamCounts | None = None
    join: JoinSignals | None = None
    app_bounds: Mapping[str, Bounds] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()
    circle: tuple[str, ...] = ()
    budget: int | None = None
    budget_key: str = OWN_BUDGET
    priority: float = 1.0
    unmeasured: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    keys: tuple[KeySample, ...] = ()

    def measured_until(self, app: AppSignals) -> datetime:
        """Return the time of an app's newest row (UTC); two evaluations with the same one saw the same telemetry."""
        return app.until or self.until

    def period_of(self, app: AppSignals) -> float:
        """Return the length of the period in which an app was measured, seconds."""
        return (self.measured_until(app) - (app.since or self.since)).total_seconds()

    def bounds_of(self, app: str) -> Bounds:
        """Return the bounds of an app."""
        return self.app_bounds.get(app, self.bounds)

    def app(self, name: str) -> AppSignals | None:
        """Return the signals of an app; None if there are none."""
        return next((app for app in self.apps if app.app == name), None)

    @property
    def arrival_rows_per_s(self) -> float | None:
        """Rows per second that arrive from outside at the apps that no other feeds; None if unknown at one of them."""
        fed = {edge.consumer for edge in self.edges}
        rates = [app.arrival_rows_per_s for app in self.apps if app.app not in fed]
        known = [rate for rate in rates if rate is not None]
        return sum(known) if rates and len(known) == len(rates) else None

    @property
    def backlog_rows(self) -> int | None:
        """Rows that wait at all apps; None if unknown at one of them."""
        known = [app.backlog_rows for app in self.apps if app.backlog_rows is not None]
        return sum(known) if len(known) == len(self.apps) else None

    @property
    def settled(self) -> tuple[AppSignals, ...]:
        """The apps whose figures are representative: all others settle."""
        if len(self.apps) < 2:
            return () if self.settling else self.apps
        return tuple(app for app in self.apps if not app.settling)

    @property
    def period_s(self) -> float:
        """Length of the period, seconds."""
        return (self.until - self.since).total_seconds()

    @property
    def trigger_s(self) -> float:
        """Longest interval of its triggers, seconds; 0 if batches follow each other as fast as possible."""
        return max((app.trigger_s for app in self.apps), default=0.0)
