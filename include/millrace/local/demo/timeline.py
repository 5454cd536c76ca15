"""What happened in a run, read from the lake and the source table: the only input of figures, checks and report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.source_tables import arrivals
from millrace.lake.store import Lake, literal
from millrace.local.demo.labels import slots_of
from millrace.model.decision import LIVE, SUCCEEDED, Decision, Outcome, Reconfiguration
from millrace.model.spec import PipelineSpec

Numbers = npt.NDArray[np.float64]
ALL = 100_000
"""Limit on evaluations and on changes, above any demo's number."""


@dataclass(frozen=True)
class Span:
    """A driver on its cores, from spark-submit to its end, in seconds of the run."""

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
        before: The app's slots before it; None if they were not measured.
        after: The slots it decided on, the same as before for "stay".
    """

    time_s: float
    decision: Decision
    before: int | None
    after: int | None

    @property
    def planned(self) -> bool:
        """Whether one of its proposals contains a plan for state partitions or streams."""
        return any(p.placement is not None or p.admission is not None for p in self.decision.proposals)

    @property
    def changes(self) -> bool:
        """Whether the evaluation decided on a different number of slots."""
        return self.after is not None and self.after != self.before


@dataclass(frozen=True)
class Timeline:
    """One run. All times are seconds since ``begun``; arrays with the same prefix have equal length.

    Attributes:
        begun: When the first driver was started or the first row arrived, whichever was earlier (UTC).
        length_s: Length of the run.
        arrival_s, arrival_rows: Commits to the source, and the total rows committed up to each.
        batch_s, batch_rows: Ends of micro-batches, and the total rows processed up to each.
        capacity_s, capacity_slots, capacity_rows_per_s: Sustainable throughput as measured by
            evaluations, rows per second.
        spans: Drivers, in order of their start.
        evaluations: Decisions, oldest first.
        changes: Reconfigurations, oldest first.
    """

    begun: datetime
    length_s: float
    arrival_s: Numbers
    arrival_rows: Numbers
    batch_s: Numbers
    batch_rows: Numbers
    capacity_s: Numbers
    capacity_slots: Numbers
    capacity_rows_per_s: Numbers
    spans: tuple[Span, ...]
    evaluations: tuple[Evaluation, ...]
    changes: tuple[Reconfiguration, ...]

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

    def slots(self, times_s: Numbers) -> Numbers:
        """Return the slots of the driver in use at each time: the newest one that was ready."""
        served = np.zeros_like(times_s)
        for span in self.spans:
            if span.ready_s is not None:
                served = np.where((times_s >= span.ready_s) & (times_s <= span.end_s), span.slots, served)
        return served


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
    until = until or datetime.now(UTC)
    came = arrivals(source)
    changes = tuple(reversed(tables.reconfigurations.recent(spec.name, limit=ALL)))
    decisions = list(reversed(tables.decisions.recent(spec.name, limit=ALL)))
    batches = _batches(spec, tables.lake)
    firsts = [*came["time"].to_pylist()[:1], *(c.started for c in changes[:1]), *(d.time for d in decisions[:1])]
    begun = min(firsts, default=until)

    def seconds(times: list[datetime]) -> Numbers:
        return np.array([(t - begun).total_seconds() for t in times], dtype=float)

    measured = [
        (d.signals.until, app.capacity.parallelism, app.sustainable(d.signals.objective))
        for d in decisions
        if d.signals
        for app in d.signals.apps
        if app.app == spec.app and app.capacity
    ]
    return Timeline(
        begun=begun,
        length_s=(until - begun).total_seconds(),
        arrival_s=seconds(came["time"].to_pylist()),
        arrival_rows=np.cumsum(came["rows"].to_numpy().astype(float)),
        batch_s=seconds([b["time"] for b in batches]),
        batch_rows=np.cumsum([float(b["rows_in"]) for b in batches]),
        capacity_s=seconds([t for t, _, _ in measured]),
        capacity_slots=np.array([float(p) for _, p, _ in measured]),
        capacity_rows_per_s=np.array([rate for _, _, rate in measured], dtype=float),
        spans=_spans(spec, tables.deployments, changes, begun, until),
        evaluations=tuple(_evaluation(spec.app, d, begun) for d in decisions),
        changes=changes,
    )


def _batches(spec: PipelineSpec, lake: Lake) -> list[dict[str, Any]]:
    sql = f"""
        select time, rows_in from (
            select *, row_number() over (partition by query, epoch, batch_id order by time desc) as age
            from batches where pipeline = {literal(spec.name)} and app = {literal(spec.app)}
            and rows_in > 0 -- a marker has the id of the batch before it
        ) where age = 1 order by time
    """  # noqa: S608 - values pass through literal()
    return lake.rows(sql, "telemetry/batches")


def _spans(
    spec: PipelineSpec,
    deployments: DeploymentStore,
    changes: tuple[Reconfiguration, ...],
    begun: datetime,
    until: datetime,
) -> tuple[Span, ...]:
    """Return each driver's time on its cores, with a new span at each change of its executors.

    While one driver hands over to the next, or executors are being added, both count, so this is an upper bound.
    Executors count until they are gone.
    """
    spans: list[Span] = []
    for index, change in enumerate(changes):
        if change.generation is None or change.to_version is None:
            continue
        deployment = deployments.get(spec.name, change.to_version)
        if deployment is None or spec.app not in deployment.apps or change.started >= until:
            continue
        slots = deployment.apps[spec.app].slots
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
                start_s=(begin - begun).total_seconds(),
                ready_s=(change.ended - begun).total_seconds() if started and change.ended else None,
                end_s=(end - begun).total_seconds(),
                slots=slots,
                version=change.to_version,
            )
        )
    return tuple(spans)


def _evaluation(app: str, decision: Decision, begun: datetime) -> Evaluation:
    before, after = slots_of(decision, app)
    return Evaluation((decision.time - begun).total_seconds(), decision, before, after)


def _step(times: Numbers, values: Numbers, at: Numbers) -> Numbers:
    index = np.searchsorted(times, at, side="right")
    return np.concatenate([[0.0], values])[index]
