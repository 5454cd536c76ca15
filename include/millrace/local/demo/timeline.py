"""What happened in a run, read from the lake and the source table: the only input of figures, checks and report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.source_tables import arrivals
from millrace.lake.store import Lake, literal
from millrace.local.demo.labels import sizes_of
from millrace.model.chain_rate import chain_rate
from millrace.model.decision import LIVE, SUCCEEDED, Decision, Outcome, Reconfiguration
from millrace.model.signals import Signals
from millrace.model.spec import PipelineSpec

Numbers = npt.NDArray[np.float64]
ALL = 100_000
"""Limit on evaluations and on changes, above any demo's number."""


@dataclass(frozen=True)
class Span:
    """A driver on its cores, from spark-submit to its end, in seconds of the run."""

    app: str
    start_s: float
    ready_s: float | None
    end_s: float
    slots: int
    version: int


@dataclass(frozen=True)
class Evaluation:
    """A Decision as the report shows it.

    Attributes:
        time_s: Time, in seconds of the run.
        decision: The Decision itself.
        sizes: Each app's slots before it (None if they were not measured) and the slots it decided on, the same as
            before for "stay".
    """

    time_s: float
    decision: Decision
    sizes: Mapping[str, tuple[int | None, int | None]]

    @property
    def before(self) -> int | None:
        """Slots of all apps before it; None if they were not measured."""
        return _sum(before for before, _ in self.sizes.values())

    @property
    def after(self) -> int | None:
        """Slots of all apps that it decided on; None if they are not known."""
        return _sum(after for _, after in self.sizes.values())

    @property
    def planned(self) -> bool:
        """Whether one of its proposals contains a plan for state partitions or streams."""
        return any(p.placement is not None or p.admission is not None for p in self.decision.proposals)

    @property
    def changes(self) -> bool:
        """Whether the evaluation decided on a different number of slots."""
        return any(after is not None and after != before for before, after in self.sizes.values())

    @property
    def grows_all(self) -> bool:
        """Whether it decided on more slots for every app."""
        return all(before and after and after > before for before, after in self.sizes.values())


@dataclass(frozen=True)
class Timeline:
    """One run. All times are seconds since ``begun``; arrays with the same prefix have equal length.

    Several apps are a chain that passes every row on: a row waits from its arrival at the first app to the end of the
    last app's batch.

    Attributes:
        begun: When the first driver was started or the first row arrived, whichever was earlier (UTC).
        length_s: Length of the run.
        apps: Names of the apps.
        arrival_s, arrival_rows: Commits to the source, and the total rows committed up to each.
        batch_s, batch_rows: Ends of the last app's micro-batches, and the total rows processed up to each.
        capacity_s, capacity_slots, capacity_rows_per_s: Sustainable throughput as measured by
            evaluations, rows per second, and the slots of all apps together.
        spans: Drivers, in order of their start.
        evaluations: Decisions, oldest first.
        changes: Reconfigurations, oldest first.
    """

    begun: datetime
    length_s: float
    apps: tuple[str, ...]
    arrival_s: Numbers
    arrival_rows: Numbers
    batch_s: Numbers
    batch_rows: Numbers
    capacity_s: Numbers = field(default_factory=lambda: np.zeros(0))
    capacity_slots: Numbers = field(default_factory=lambda: np.zeros(0))
    capacity_rows_per_s: Numbers = field(default_factory=lambda: np.zeros(0))
    spans: tuple[Span, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    changes: tuple[Reconfiguration, ...] = ()

    def processed(self, times_s: Numbers) -> Numbers:
        """Return the rows processed up to each time."""
        return _step(self.batch_s, self.batch_rows, times_s)

    def arrived(self, times_s: Numbers) -> Numbers:
        """Return the rows that had arrived up to each time."""
        return _step(self.arrival_s, self.arrival_rows, times_s)

    def oldest_waiting_s(self, times_s: Numbers) -> Numbers:
        """Return how long the oldest unprocessed row had been waiting at each time, 0 without one."""
        done, come = self.processed(times_s), self.arrived(times_s)
        at = np.searchsorted(self.arrival_rows, done, side="right")  # the commit with the next row
        came = np.append(self.arrival_s, np.inf)[at]
        return np.where(done < come, np.maximum(times_s - came, 0.0), 0.0)

    def rate(self, times_s: Numbers, window_s: float) -> Numbers:
        """Return the arrival rate in the ``window_s`` around each time, rows per second."""
        half = window_s / 2
        return (self.arrived(times_s + half) - self.arrived(times_s - half)) / window_s

    def slots(self, times_s: Numbers, app: str | None = None) -> Numbers:
        """Return the slots of the driver in use at each time: the newest one that was ready.

        Args:
            times_s: The times.
            app: The app; by default, all apps together.
        """
        if app is None:
            return sum((self.slots(times_s, each) for each in self.apps), np.zeros_like(times_s))
        served = np.zeros_like(times_s)
        for span in self.spans:
            if span.app == app and span.ready_s is not None:
                served = np.where((times_s >= span.ready_s) & (times_s <= span.end_s), span.slots, served)
        return served

    @property
    def most_slots(self) -> int:
        """Most slots of all apps together at any time."""
        ready = [span.ready_s for span in self.spans if span.ready_s is not None]
        return int(self.slots(np.array(ready, dtype=float)).max(initial=0))


def read_timeline(spec: PipelineSpec, tables: ControlTables, source: Path, until: datetime | None = None) -> Timeline:
    """Read a pipeline's whole run.

    Args:
        spec: The pipeline.
        tables: Its control tables.
        source: Folder of its source table.
        until: End of the run (UTC), now by default; later decisions and changes are listed, but not counted.

    Raises:
        MillraceError: If a table cannot be read.
    """
    until, apps = until or datetime.now(UTC), tuple(spec.app_specs)
    came = arrivals(source)
    changes = tuple(reversed(tables.reconfigurations.recent(spec.name, limit=ALL)))
    decisions = list(reversed(tables.decisions.recent(spec.name, limit=ALL)))
    batches = _batches(spec.name, apps[-1], tables.lake)
    firsts = [*came["time"].to_pylist()[:1], *(c.started for c in changes[:1]), *(d.time for d in decisions[:1])]
    begun = min(firsts, default=until)

    def seconds(times: list[datetime]) -> Numbers:
        return np.array([(t - begun).total_seconds() for t in times], dtype=float)

    measured = [(d.signals.until, *found) for d in decisions if d.signals and (found := sustainable(d.signals))]
    return Timeline(
        begun=begun,
        length_s=(until - begun).total_seconds(),
        apps=apps,
        arrival_s=seconds(came["time"].to_pylist()),
        arrival_rows=np.cumsum(came["rows"].to_numpy().astype(float)),
        batch_s=seconds([b["time"] for b in batches]),
        batch_rows=np.cumsum([float(b["rows_in"]) for b in batches]),
        capacity_s=seconds([t for t, _, _ in measured]),
        capacity_slots=np.array([float(p) for _, p, _ in measured]),
        capacity_rows_per_s=np.array([rate for _, _, rate in measured], dtype=float),
        spans=tuple(
            span
            for app in apps
            for span in _spans(app, tables.deployments, [c for c in changes if c.app == app], begun, until)
        ),
        evaluations=tuple(_evaluation(apps, d, begun) for d in decisions),
        changes=changes,
    )


def sustainable(signals: Signals) -> tuple[int, float] | None:
    """Return the slots of all apps and the rows per second that they sustain; None until every app is measured."""
    rates = {app.app: app.sustainable(signals.objective) for app in signals.apps}
    slots = [app.capacity.parallelism for app in signals.apps if app.capacity]
    rate = chain_rate(signals, rates)
    return None if rate is None or len(slots) < len(signals.apps) else (sum(slots), rate)


def _batches(pipeline: str, app: str, lake: Lake) -> list[dict[str, Any]]:
    sql = f"""
        select time, rows_in from (
            select *, row_number() over (partition by query, epoch, batch_id order by time desc) as age
            from batches where pipeline = {literal(pipeline)} and app = {literal(app)}
            and rows_in > 0 -- a marker has the id of the batch before it
        ) where age = 1 order by time
    """  # noqa: S608 - values pass through literal()
    return lake.rows(sql, "telemetry/batches")


def _spans(
    app: str, deployments: DeploymentStore, changes: Sequence[Reconfiguration], begun: datetime, until: datetime
) -> list[Span]:
    """Return the time of each driver of an app on its cores, with a new span at each change of its executors.

    While one driver hands over to the next, or executors are being added, both count, so this is an upper bound.
    Executors count until they are gone.
    """
    spans: list[Span] = []
    for index, change in enumerate(changes):
        if change.generation is None or change.to_version is None:
            continue
        deployment = deployments.get(change.pipeline, change.to_version)
        if deployment is None or app not in deployment.apps or change.started >= until:
            continue
        slots = deployment.apps[app].slots
        started = change.outcome in (Outcome.READY, Outcome.OPEN)
        if change.tier == LIVE and not (started and spans):
            continue
        later = (c.ended for c in changes[index + 1 :] if c.outcome in SUCCEEDED)
        end = min((next((e for e in later if e), None) if started else change.ended) or until, until)
        begin = change.started
        if change.tier == LIVE:
            changed = min(change.ended or until, until)
            spans[-1] = replace(spans[-1], end_s=(changed - begun).total_seconds())
            begin = change.started if slots > spans[-1].slots else changed
        spans.append(
            Span(
                app=app,
                start_s=(begin - begun).total_seconds(),
                ready_s=(change.ended - begun).total_seconds() if started and change.ended else None,
                end_s=(end - begun).total_seconds(),
                slots=slots,
                version=change.to_version,
            )
        )
    return spans


def _evaluation(apps: Sequence[str], decision: Decision, begun: datetime) -> Evaluation:
    return Evaluation((decision.time - begun).total_seconds(), decision, sizes_of(decision, apps))


def _sum(slots: Iterable[int | None]) -> int | None:
    known = list(slots)
    return None if None in known else sum(n for n in known if n is not None)


def _step(times: Numbers, values: Numbers, at: Numbers) -> Numbers:
    index = np.searchsorted(times, at, side="right")
    return np.concatenate([[0.0], values])[index]
