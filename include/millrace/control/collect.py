"""Collect Signals from telemetry: everything that one period measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from statistics import median

from millrace.control.app_graph import Measured, joined
from millrace.control.app_queries import (
    Part,
    combined,
    combined_observations,
    history_of,
    row_weights,
    running_queries,
    starts_s,
    undisturbed,
)
from millrace.control.arrivals import arrival_basis, with_arrivals
from millrace.control.batch_history import (
    History,
    healthy,
    main_query,
    order_in_app,
    read_batches,
    since_moves,
)
from millrace.control.capacity import EVEN, Uneven, fit, is_as_good_as_empty, typical_parallelism
from millrace.control.executor_deaths import Deaths, executor_deaths
from millrace.control.first_batches import change_s, first_batch_s, first_batches, rows_of_full_batch
from millrace.control.fleet_nodes import down_nodes
from millrace.control.fleet_streams import fleet_counts
from millrace.control.join_signals import join_signals
from millrace.control.key_samples import key_samples
from millrace.control.moved_state import last_moves, unevenness
from millrace.control.new_observations import known_observations
from millrace.control.partition_loads import partition_loads
from millrace.control.profile_signals import stream_counts
from millrace.control.rates import backpressured_ratio, limit_in_force, rates, restart_lag_rows
from millrace.control.settling import is_settling, version_that_ran
from millrace.control.slot_shares import with_budget
from millrace.control.task_signals import gc_ratio, lacks_splits, operators, slot_busy_ratio, usual_tasks
from millrace.lake.control_tables import ControlTables
from millrace.lake.pace import TABLE as BATCHES
from millrace.lake.pace import late_after_s
from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.errors import NotReady
from millrace.model.objective import Objective
from millrace.model.protocols import Cursor
from millrace.model.signals import AppSignals, Observation, Signals
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import BatchMetrics

MAX_PERIODS = 3
"""Longest period, in spec periods. After a pause of the loop, an average over the whole pause would say nothing."""


def collect(spec: PipelineSpec, tables: ControlTables, cursor: Cursor, now: datetime) -> Signals:
    """Return the Signals since the last evaluation; an app that has not reported yet is left out.

    The period of an app ends with its newest row. It starts at the cursor, but lasts at least one and at most
    :data:`MAX_PERIODS` spec periods. If the query's trigger has a longer interval, that replaces the spec's period. A
    row without duration and rows is a marker: it reports the source's end while no batch runs, or while a long one
    does. Only a marker can show that nothing arrives.

    Args:
        spec: The pipeline.
        tables: Its control tables, in the lake of its telemetry.
        cursor: Position at which the last evaluation stopped.
        now: The present (UTC).

    Raises:
        NotReady: Quietly, if there is no telemetry, nothing newer than the cursor, or no Deployment.
    """
    version = tables.lake.version(BATCHES)  # before the rows: the next evaluation sees a commit in between again
    if version <= cursor.telemetry_version:
        raise NotReady(f"{spec.name}: no telemetry newer than version {cursor.telemetry_version}")
    reading = _Reading(spec.name, tables, cursor, now, version)
    if not spec.apps:
        return with_budget(_of_app(spec, reading).signals, spec, tables, now)
    each: dict[str, Measured] = {}
    silent: list[NotReady] = []
    for name, of_app in spec.app_specs.items():
        try:
            each[name] = _of_app(of_app, reading)
        except NotReady as reason:
            silent.append(reason)
    if not each:
        raise silent[0]
    newest = max(app.signals.until for app in each.values())
    if newest == cursor.until and spec.fleet is None:  # the same rows would count twice
        raise NotReady(f"{spec.name}: nothing newer than {newest:%H:%M:%S}")
    for name, app in list(each.items()):  # old figures of a silent app must not pass for present ones
        silent_s = (newest - app.signals.until).total_seconds()
        if silent_s > late_after_s(app.signals.trigger_s, spec.quality.max_age_s):
            del each[name]
    ran = {app.signals.deployment_version for app in each.values()}
    contents = {number: tables.deployments.get(spec.name, number) for number in ran}
    signals = joined(spec, each, reading.current, contents, now)
    if spec.fleet is not None:
        counts, down = fleet_counts(spec, tables, cursor.until, now), down_nodes(spec, tables, reading.changes, now)
        signals = replace(
            signals, streams=None if counts is None else replace(counts, down=down), fixed=spec.fleet.node_names
        )
    return with_budget(signals, spec, tables, now)


@dataclass(frozen=True)
class _Reading:
    """One evaluation's reading of a pipeline; what its apps have in common is read once.

    Attributes:
        pipeline: Its name.
        tables: Its control tables.
        cursor: Position at which the last evaluation stopped.
        now: The present (UTC).
        version: Version of the telemetry.
    """

    pipeline: str
    tables: ControlTables
    cursor: Cursor
    now: datetime
    version: int

    @cached_property
    def current(self) -> Deployment | None:
        return self.tables.deployments.latest(self.pipeline)

    @cached_property
    def changes(self) -> Sequence[Reconfiguration]:
        # a script that ended by itself has changed nothing: its measurements stand
        recent = self.tables.reconfigurations.recent(self.pipeline)
        return [change for change in recent if change.outcome is not Outcome.FINISHED]

    @cached_property
    def observations(self) -> tuple[Observation, ...]:
        return known_observations(self.tables, self.pipeline)


def _of_app(spec: PipelineSpec, reading: _Reading) -> Measured:
    """Return what was measured of one app."""
    tables, lake, now = reading.tables, reading.tables.lake, reading.now
    histories = _histories(spec, read_batches(lake, spec.name, spec.app, now), reading.cursor)
    history = histories[0]
    changes, current = [change for change in reading.changes if change.app == spec.app], reading.current
    if current is None:
        raise NotReady(f"{spec.name}: it has never been launched")
    if spec.is_one_of_several and spec.app not in current.apps:  # what it ran before must not use up the budget
        raise NotReady(f"{spec.name}: version {current.version} has no app {spec.app}")
    open_at_most_s = spec.ready_deadline_s + spec.stop_deadline_s
    moved, slots = last_moves(spec, tables, changes, now), history.newest.slots
    healthy_of = [since_moves(healthy(one.rows, changes, open_at_most_s), moved, slots) for one in histories]
    counted, observations = healthy_of[0], reading.observations
    settling = is_settling(history, counted, changes, now, open_at_most_s, _period_s(spec, history.newest))
    deaths = executor_deaths(spec, lake, current, changes, now, history.trigger_s)
    loads = None if spec.placement is None else partition_loads(spec, lake, now, _batch_s(history), history.trigger_s)
    weights: Mapping[str, float] = {}
    if len(histories) == 1:
        app = _app(
            spec, history, counted, changes, deaths, settling, uneven=unevenness(loads, current, spec.app, slots)
        )
    else:
        parts = _parts(spec, histories, healthy_of, changes, deaths, settling)
        app = combined(parts, max(histories, key=lambda one: order_in_app(one.newest)).newest.slots)
        observations, weights = combined_observations(app, parts, observations), row_weights(parts)
    since, until = max(one.since for one in histories), max(one.until for one in histories)
    signals = Signals(
        pipeline=spec.name,
        since=since,
        until=until,
        telemetry_version=reading.version,
        deployment_version=version_that_ran(history, changes, current.version),
        apps=(app,),
        observations=observations,
        objective=_objective(spec, history),
        bounds=spec.bounds_contract(now),
        settling=settling,
        partition_loads=loads,
        streams=stream_counts(spec, tables, reading.cursor.until, now),
        join=join_signals(spec, lake, history.since, history.until),
        keys=key_samples(spec, lake, reading.cursor.until, since, until),
    )
    return Measured(signals, sorted((row for one in histories for row in one.rows), key=lambda row: row.time), weights)


def _period_s(spec: PipelineSpec, newest: BatchMetrics) -> float:
    """Return the length of a period, seconds: long enough for a batch of the query to end in each."""
    return max(spec.period_s, newest.trigger_s or 0.0)


def _objective(spec: PipelineSpec, history: History) -> Objective:
    return spec.objective_contract().with_trigger(history.trigger_s)


def _histories(spec: PipelineSpec, rows: Sequence[BatchMetrics], cursor: Cursor) -> list[History]:
    """Return the history of each running query, the busiest first; the busiest query's trigger sets the period."""
    if not rows:
        raise NotReady(f"{spec.name}: no telemetry yet")
    newest = max(rows, key=order_in_app)
    running = running_queries(rows, newest.time, timedelta(seconds=spec.period_s))
    recently = newest.time - timedelta(seconds=spec.period_s)
    ordered = with_arrivals(main_query([row for row in rows if row.query in running], recently))
    period = timedelta(seconds=_period_s(spec, ordered[-1]))
    until = ordered[-1].time if len(running) == 1 else newest.time
    read_to = cursor.until
    # not "<": if the clock went back, the newest row is older than the cursor and still new
    if read_to is not None and until == read_to:
        if not spec.is_one_of_several:
            raise NotReady(f"{spec.name}: nothing newer than {read_to:%H:%M:%S}")
        read_to = None  # another app of the pipeline has reported since
    since = min(max(read_to or until - period, until - MAX_PERIODS * period), until - period)
    if len(running) == 1:
        return [History(ordered, since, until)]
    others = [query for query in running if query != ordered[0].query]
    each = [with_arrivals(main_query([row for row in rows if row.query == query], since)) for query in others]
    return [history_of(of_query, since, until) for of_query in (ordered, *each)]


def _parts(
    spec: PipelineSpec,
    histories: Sequence[History],
    healthy_of: Sequence[Sequence[BatchMetrics]],
    changes: Sequence[Reconfiguration],
    deaths: Deaths,
    settling: bool,
) -> dict[str, Part]:
    """Return what was measured of each of several queries, ordered by name."""
    parts = {}
    for history, counted in zip(histories, healthy_of, strict=True):
        others = [batch for other in histories if other is not history for batch in other.batches]
        own = undisturbed(counted, others)
        signals = _app(spec, history, own, changes, deaths, settling, shared=True)
        read = sum(batch.rows_in for batch in history.batches)
        parts[history.newest.query] = Part(signals, read, starts_s(own))
    return dict(sorted(parts.items()))


def _app(
    spec: PipelineSpec,
    history: History,
    counted: Sequence[BatchMetrics],
    changes: Sequence[Reconfiguration],
    deaths: Deaths,
    settling: bool,
    *,
    shared: bool = False,
    uneven: Uneven = EVEN,
) -> AppSignals:
    batches = history.in_period(history.batches)
    present = history.present(batches)
    running_tasks = _running_tasks(history)
    p = typical_parallelism(_on_slots(present, history)) or typical_parallelism(
        _on_slots(history.present(history.batches), history)
    )
    # in real-time mode the trigger sets the length of a batch, whatever its rows cost
    fitted = fit(counted, shared=shared, uneven=uneven) if running_tasks is None else {}
    capacity = fitted.get(p) if p is not None else None
    first = first_batches(history) if running_tasks is None and (settling or capacity is None) else None
    source = rates(history)
    fixed_s = capacity.fixed_s if capacity else None
    lag = restart_lag_rows(history, changes)
    return AppSignals(
        app=spec.app,
        slots=history.newest.slots,
        parallelism=p,
        source_splits=lacks_splits(present or history.present(history.batches)),
        arrival_rows_per_s=source.arrival_rows_per_s,
        arrival_recent_rows_per_s=source.arrival_recent_rows_per_s,
        processed_rows_per_s=source.processed_rows_per_s,
        backlog_rows=source.backlog_rows,
        backlog_growth_rows_per_s=source.backlog_growth_rows_per_s,
        batches=len(batches),
        healthy_batches=len(history.in_period(counted)),
        busy_ratio=min(1.0, history.busy_s() / history.period_s),
        backpressured_ratio=backpressured_ratio(history, source.arrival_rows_per_s, _objective(spec, history), fixed_s),
        slot_busy_ratio=slot_busy_ratio(history),
        capacity=capacity,
        restart_lag_rows=lag,
        batch_rows_limit=limit_in_force(history.batches) or (rows_of_full_batch(history) if first else None),
        largest_batch_rows=max((batch.rows_in for batch in history.batches), default=None),
        batch_limits=history.newest.limits,
        memory_deaths=deaths.of_memory,
        gc_ratio=gc_ratio(history),
        executor_deaths=deaths.others,
        operators=operators(spec.app, history, present),
        arrival_basis=arrival_basis(history),
        tasks=usual_tasks(history.present(history.batches)),
        lag=history.newest.lag,
        running_tasks=running_tasks,
        trigger_s=history.trigger_s,
        first_batches=first,
        first_batch_s=first_batch_s(history),
        empty_batches=sum(map(is_as_good_as_empty, history.in_period(counted))),
        change_s=change_s(history, fitted),
        restarts=spec.executor_size is None,
        sources=dict(_rows_by_source(history)),
        sinks=tuple(sorted({row.sink for row in history.rows if row.sink})),
    )


def _rows_by_source(history: History) -> Counter[str]:
    """Return the rows that the history's batches read from each source; one that has no rows yet counts too."""
    rows: Counter[str] = Counter()
    for row in history.rows:
        rows.update(row.sources)
    return rows


def _running_tasks(history: History) -> int | None:
    """Return how many tasks run all the time in real-time mode; None for micro-batches."""
    if history.newest.running_tasks is None:
        return None
    return max(row.running_tasks or 0 for row in history.present(history.rows))


def _on_slots(batches: Sequence[BatchMetrics], history: History) -> list[BatchMetrics]:
    """Return the batches that ran on as many slots as there are now."""
    return [batch for batch in batches if batch.slots == history.newest.slots]


def _batch_s(history: History) -> float | None:
    """Return the median duration of the period's batches with rows, seconds; None without one."""
    durations = [batch.duration_s for batch in history.in_period(history.batches) if batch.rows_in > 0]
    return median(durations) if durations else None
