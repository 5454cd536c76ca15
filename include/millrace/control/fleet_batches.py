"""SQL over the batches of a fleet's streams, whichever nodes ran them."""

from __future__ import annotations

from datetime import datetime, timedelta

from millrace.lake.store import literal
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import RUNNING

BATCHES = "telemetry/batches"
HEARTBEAT = "millrace-node"
"""The query that keeps a node without streams alive; :data:`millrace.fleet.node.HEARTBEAT`."""
BEFORE = timedelta(minutes=10)
"""How long before a period rows are read: a row shows what arrived since the one before it, and a batch counts for the
whole interval of its trigger."""


def of_streams(spec: PipelineSpec) -> str:
    """Return the SQL condition for rows of the fleet's streams; other apps of the pipeline may read what it writes."""
    nodes = ", ".join(map(literal, () if spec.fleet is None else spec.fleet.node_names))
    own = f"query is not null and query <> {literal(HEARTBEAT)}"
    return f"pipeline = {literal(spec.name)} and app in ({nodes}) and {own}"


def reported(spec: PipelineSpec, since: datetime) -> str:
    """Return the SQL of all rows that the fleet's streams reported, each once, markers included.

    Columns: ``stream``, ``app``, ``generation``, ``batch_id``, ``time`` (its end), ``rows_in``, ``source_end``,
    ``backlog_rows``, ``took_s`` (0 in a marker), ``running_s`` (of the next batch, so far; 0 unless it is its marker),
    ``interval_s`` from one batch to the next.

    Args:
        spec: The fleet.
        since: Oldest time that is read (UTC).
    """
    took, running = (f"coalesce(durations_ms['{phase}'], 0) / 1000.0" for phase in ("triggerExecution", RUNNING))
    return f"""
        select distinct query as stream, app, generation, epoch, batch_id, time, rows_in, source_end, backlog_rows,
            {took} as took_s, case when {took} = 0 then {running} else 0.0 end as running_s,
            case when trigger_s > 0 then trigger_s else {spec.objective.max_lag_s / 2} end as interval_s
        from batches where {of_streams(spec)} and time >= {literal(since)}
    """  # noqa: S608 - values pass through literal() or are numbers


def arrivals(spec: PipelineSpec, since: datetime) -> str:
    """Return the SQL of the same rows, each with the ``rows`` that arrived since the one ``before`` it (its time).

    Arrived, not read: after a start or a move, a stream reads what has piled up. A source that does not count its rows
    shows only what is read. A driver's first row of a stream shows no arrival, as the count begins with it.

    Args:
        spec: The fleet.
        since: Oldest time that is read (UTC).
    """
    run = "partition by stream, app, generation"
    last = f"over ({run} order by time, batch_id)"
    return f"""
        select *, lag(time) {last} as before, case
            when counts then greatest(0, coalesce(source_end - lag(source_end) {last}, 0))
            when lag(time) {last} is null then 0 else coalesce(rows_in, 0) end as rows
        from (select *, max(source_end) over ({run}) is not null as counts from ({reported(spec, since)}))
        where source_end is not null or not counts
    """  # noqa: S608 - as above


def arrivals_by_period(spec: PipelineSpec, since: datetime, period_s: int) -> str:
    """Return the SQL of the ``rows`` that arrived at each ``stream`` in the periods that start at ``time``.

    If a query did not report for whole periods, its rows arrived evenly since the row before.

    Args:
        spec: The fleet.
        since: Oldest time that is read (UTC).
        period_s: Length of a period, seconds.
    """
    number, former = (f"cast(floor(date_part('epoch', {of}) / {period_s}) as bigint)" for of in ("time", "before"))
    begun = f"number * {1_000_000 * period_s}"
    return f"""
        select stream, arrow_cast({begun}, 'Timestamp(Microsecond, Some("UTC"))') as time,
            cast(round(rows / (1.0 + last - first)) as bigint) as rows
        from (select *, unnest(range(first, last + 1)) as number from (
            select stream, rows, {number} as last, least({number}, coalesce({former} + 1, {number})) as first
            from ({arrivals(spec, since)})
        ))
    """  # noqa: S608 - as above
