"""Several apps that feed each other: which reads what another writes, and the signals of all of them.

An edge exists if an app reads what another writes, by their names in lineage, or if the spec says so because a sink
hides (``apps.NAME.reads``). Its rate is what arrives at the consumer from that source: the rows that the consumer reads
would be too few while it is behind.

If several queries run in an app, its rows are weighted by their cost (:mod:`.app_queries`), so those of an edge are
too: each query that reads the same table gets all of its rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from statistics import fmean
from types import MappingProxyType

from millrace.control.batch_history import sound, span
from millrace.model.app_spec import cycle
from millrace.model.arrival import ArrivalBasis
from millrace.model.deployment import Deployment
from millrace.model.signals import AppSignals, Edge, Signals
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import BatchMetrics

BATCHES, FEWEST = 8, 3
"""Newest batches of a producer that an edge is measured over, and the fewest that are enough."""


@dataclass(frozen=True)
class Measured:
    """One app.

    Attributes:
        signals: Its Signals.
        rows: The rows of telemetry behind them, oldest first.
        weights: How many rows of the app a row of each of its queries counts as; empty if only one runs.
    """

    signals: Signals
    rows: Sequence[BatchMetrics]
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Link:
    """What an app reads of another.

    Attributes:
        sinks: Sinks of the producer that the consumer reads; empty if its sink hides.
        sources: Sources of the consumer that are explained by it.
        share: Share of the consumer's rows that come from there, 0..1.
        part: The same of the rows of ``sources``.
    """

    sinks: frozenset[str]
    sources: frozenset[str]
    share: float
    part: float = 1.0


def joined(
    spec: PipelineSpec,
    measured: Mapping[str, Measured],
    current: Deployment | None,
    contents: Mapping[int, Deployment | None],
    now: datetime,
) -> Signals:
    """Return the Signals of several apps as those of their pipeline.

    An app whose content no newer version has changed runs the newest version, whatever the number it was started with.
    One that does not run the newest version yet settles, and the others are sized without it.

    Args:
        spec: The pipeline.
        measured: Each app that has reported, at least one, by name.
        current: The newest Deployment.
        contents: The Deployments that ran, by version.
        now: The present (UTC).
    """
    by_app = {name: app.signals for name, app in measured.items()}
    rows = {name: app.rows for name, app in measured.items()}
    bounds = spec.bounds_by_app(now)
    each = list(by_app.values())
    newest = max(each, key=lambda signals: signals.until)
    observations = dict.fromkeys(observation for signals in each for observation in signals.observations)
    at_newest = {name: _runs(name, current, contents.get(s.deployment_version)) for name, s in by_app.items()}
    apps = tuple(
        replace(app, settling=s.settling or not at_newest[name], since=s.since, until=s.until)
        for name, s in by_app.items()
        for app in s.apps
    )
    weights = {name: app.weights for name, app in measured.items()}
    found = find_links(apps, rows, {name: section.reads for name, section in spec.apps.items()}, weights)
    circle = tuple(sorted(set(cycle(found))))
    links = () if circle else tuple(edges(found, rows, weights))
    return Signals(
        pipeline=spec.name,
        since=min(signals.since for signals in each),
        until=newest.until,
        telemetry_version=newest.telemetry_version,
        deployment_version=current.version
        if current is not None and any(at_newest.values())
        else max(signals.deployment_version for signals in each),
        apps=tuple(_as_consumer(app, [link for link in links if link.consumer == app.app], measured) for app in apps),
        observations=tuple(sorted(observations, key=lambda observation: observation.time)),
        objective=spec.objective_contract(),
        bounds=next(iter(bounds.values())),
        settling=any(app.settling for app in apps),
        app_bounds=bounds,
        unmeasured=tuple(n for n in spec.apps if n not in by_app and (current is None or current.wanted(n))),
        edges=links,
        circle=circle,
    )


def _runs(app: str, current: Deployment | None, ran: Deployment | None) -> bool:
    """Return whether the version that an app was started with has its newest content."""
    return current is not None and ran is not None and ran.apps.get(app) == current.apps.get(app)


def _as_consumer(app: AppSignals, links: Sequence[Edge], measured: Mapping[str, Measured]) -> AppSignals:
    """Return an app with what others pass on as the mean over their batches, and with what it has not seen of it yet.

    In a period without the end of a batch nothing arrives, in another one all of it.
    """
    if app.backlog_rows is not None:
        unseen = sum(_unseen(link, measured[link.producer], measured[app.app]) for link in links)
        app = replace(app, backlog_rows=app.backlog_rows + round(unseen))
    passed = [link.rows_per_s for link in links if link.rows_per_s is not None]
    if not links or len(passed) < len(links) or app.arrival_rows_per_s is None:
        return app
    outside = max(0.0, 1.0 - sum(link.share for link in links)) * app.arrival_rows_per_s
    return replace(app, arrival_rows_per_s=outside + sum(passed), arrival_recent_rows_per_s=None)


def _unseen(link: Edge, producer: Measured, consumer: Measured) -> float:
    """Return the rows that a producer has passed on since its consumer last looked at its source; 0 if unknown."""
    sinks = {row.sink for row in producer.rows if row.sink}
    reading = [row for row in consumer.rows if sinks & row.sources.keys()]
    queries = {row.query for row in reading or consumer.rows}
    looks = {row.query: _looked_at(row) for row in consumer.rows if row.source_end is not None and row.query in queries}
    if not looks or link.rows_per_s is None or not link.taken_rows_per_s:
        return 0.0
    new = _weighted((row for row in sound(producer.rows) if row.time > min(looks.values())), producer.weights)
    return new * link.rows_per_s / link.taken_rows_per_s


def _weighted(batches: Iterable[BatchMetrics], weights: Mapping[str, float]) -> float:
    """Return the rows of an app's batches as rows of the app."""
    return sum(weights.get(batch.query, 1.0) * batch.rows_in for batch in batches)


def _looked_at(row: BatchMetrics) -> datetime:
    """Return the time of the position that a row reports: a planned one dates from the batch's begin."""
    return span(row)[0] if row.arrival_basis is ArrivalBasis.PLANNED else row.time


def find_links(
    apps: Sequence[AppSignals],
    rows: Mapping[str, Sequence[BatchMetrics]],
    reads: Mapping[str, Sequence[str]],
    weights: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
) -> Mapping[str, Mapping[str, Link]]:
    """Return what each app reads of others, by consumer and producer.

    Args:
        apps: The apps that have reported.
        rows: Their rows of telemetry by app, oldest first.
        reads: Apps whose output each app reads according to the spec, by name. Their rows are those of the sources
            that no known sink explains, in equal parts.
        weights: How many rows of an app a row of each of its queries counts as, by app; apps of one query have none.
    """
    names = {app.app for app in apps}
    found: dict[str, dict[str, Link]] = {}
    for consumer in apps:
        parts = _rows_by_source(consumer, rows[consumer.app], weights.get(consumer.app, {}))
        total = sum(parts.values())
        own: dict[str, Link] = {}
        for producer in apps:
            shared = frozenset(name for name in producer.sinks if name in parts and producer.app != consumer.app)
            if shared:
                share = sum(parts.pop(name) for name in shared) / total if total else 0.0
                own[producer.app] = Link(shared, shared, share)
        hidden = [name for name in reads.get(consumer.app, ()) if name in names and name not in own]
        rest = sum(parts.values()) / total if total else 0.0
        unexplained = frozenset(parts)
        own |= {name: Link(frozenset(), unexplained, rest / len(hidden), 1 / len(hidden)) for name in hidden}
        found[consumer.app] = own
    return found


def edges(
    links: Mapping[str, Mapping[str, Link]],
    rows: Mapping[str, Sequence[BatchMetrics]],
    weights: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
) -> Iterator[Edge]:
    """Yield an edge for each link, with its rate if it can be measured.

    Args:
        links: As :func:`find_links` returns them, without a circle: that has no head to size from.
        rows: See :func:`find_links`.
        weights: See :func:`find_links`.
    """
    for consumer_name, producers in links.items():
        for producer_name, link in producers.items():
            of, read = weights.get(producer_name, {}), rows[consumer_name]
            written = sound(rows[producer_name])
            if of:  # several queries, each of which counts its own batches
                written.sort(key=lambda row: row.time)
            edge = Edge(producer_name, consumer_name, None, share=link.share)
            each = _reading(link, read, weights.get(consumer_name, {}))
            yield _of_queries(edge, [_edge(replace(edge, share=s), written, of, own, link.sinks) for own, s in each])


def _rows_by_source(
    app: AppSignals, rows: Sequence[BatchMetrics], weights: Mapping[str, float]
) -> dict[str, int | float]:
    """Return the rows that an app has read from each source; those of several queries weighted."""
    found: dict[str, int | float] = dict(app.sources)
    if weights:
        found = dict.fromkeys(found, 0.0)
        for row in rows:
            for name, count in row.sources.items():
                found[name] = found.get(name, 0.0) + weights.get(row.query, 1.0) * count
    return found


def _reading(
    link: Link, read: Sequence[BatchMetrics], weights: Mapping[str, float]
) -> list[tuple[Sequence[BatchMetrics], float]]:
    """Return the telemetry of each query that reads from there, and the share of its rows that is, weighted."""
    if not weights:
        return [(read, link.share)]
    found: list[tuple[Sequence[BatchMetrics], float]] = []
    for query, weight in weights.items():
        own = [row for row in read if row.query == query]
        counted = [(name, count) for row in own for name, count in row.sources.items()]
        there, total = sum(count for name, count in counted if name in link.sources), sum(n for _, n in counted)
        if there:
            found.append((own, weight * link.part * there / total))
    return found


def _of_queries(edge: Edge, each: Sequence[Edge]) -> Edge:
    """Return an edge to an app from the edges to each of its queries that reads from there."""
    known = [(e.rows_per_s, e.taken_rows_per_s) for e in each if e.rows_per_s is not None and e.taken_rows_per_s]
    if not known or len(known) < len(each):
        return edge
    taken = fmean(took for _, took in known)
    got = taken * sum(got / took for got, took in known)
    return replace(edge, rows_per_s=got, taken_rows_per_s=taken, lump_rows=sum(e.lump_rows for e in each))


def _edge(
    edge: Edge,
    written: Sequence[BatchMetrics],
    weights: Mapping[str, float],
    read: Sequence[BatchMetrics],
    sinks: frozenset[str],
) -> Edge:
    """Return an edge to a query, measured from the end of one of the producer's batches to the end of another.

    What a batch writes arrives at once, at its end. So periods that batches do not fill would show too much or nothing.
    Both ends are batches after which the consumer looked at its source before the next one ended. Otherwise, rows of
    the next one would count as rows of this one, and while the rate falls, the edge would seem to pass on too few.

    Args:
        edge: The edge without rates; its share is that of the query's rows.
        written: Sound rows of telemetry of the producer, oldest first.
        weights: How many rows of the producer a row of each of its queries counts as; empty if only one runs.
        read: Rows of telemetry of the query that reads, oldest first.
        sinks: Sinks of the producer that the consumer reads; empty if its sink hides.
    """
    seen = [(_looked_at(row), row.source_end) for row in read if row.source_end is not None]
    batches = [row for row in written if row.rows_in > 0 and (row.sink in sinks or not sinks)]
    inside = [batch for batch in batches if seen and seen[0][0] <= batch.time <= seen[-1][0]][-BATCHES - 1 :]
    times = [time for time, _ in seen]
    at = [bisect_left(times, batch.time) for batch in inside]
    clear = [n for n, index in enumerate(at) if n == len(at) - 1 or times[index] < inside[n + 1].time]
    ends = inside[clear[0] : clear[-1] + 1] if clear else []
    if len(ends) <= FEWEST:
        return edge
    first, last = seen[at[clear[0]]][1], seen[at[clear[-1]]][1]
    took, got = sum(batch.rows_in for batch in ends[1:]), edge.share * ((last or 0) - (first or 0))
    begin, end = ends[0].time, ends[-1].time
    span_s = (end - begin).total_seconds()
    if got < 0 or span_s <= 0:  # the source was recreated
        return edge
    taken = _weighted((row for row in written if begin < row.time <= end), weights) if weights else took
    lump = max(batch.rows_in for batch in ends[1:]) * got / took
    return replace(edge, rows_per_s=got / span_s, taken_rows_per_s=taken / span_s, lump_rows=lump)
