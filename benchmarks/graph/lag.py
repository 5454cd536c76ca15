"""How long rows of the first sources wait until the last app has processed what came from them.

Rows cannot be compared across apps: a sentence becomes several words. Positions can. A commit to a first source ends at
a position of that table. The first app has passed it at the end of the batch with which it has read that many rows. By
then, everything that came from the commit is in the app's results table, up to the position at which the table ends.
So the next app has to pass that position, and so on. A commit is done when every app has passed what came from it. If
an app reads several tables, it has passed a commit when it has passed its position in each of them.

An app whose sink does not show in its progress (``foreachBatch``) ends its path: apps behind it are not followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

import numpy as np
import numpy.typing as npt

from millrace.model.telemetry import BatchMetrics

Numbers = npt.NDArray[np.float64]
WHOLE = 0.99
"""Share of a table's rows from which an app counts as having read it: shares of sums are rounded."""
HALF_A_ROW = 0.5
Span = tuple[float, float]
"""Begin and end, seconds since 1970."""


@dataclass(frozen=True)
class Steps:
    """A number of rows that grows over time.

    Attributes:
        at_s: When it grew, in order, seconds since 1970.
        rows: The rows from then on.
    """

    at_s: Numbers
    rows: Numbers

    def by(self, times_s: Numbers) -> Numbers:
        """Return the rows at each time."""
        return np.append(0.0, self.rows)[np.searchsorted(self.at_s, times_s, side="right")]

    def reached(self, rows: Numbers) -> Numbers:
        """Return when there were at least as many rows, for each number; infinity if there never were."""
        return np.append(self.at_s, np.inf)[np.searchsorted(self.rows, rows - HALF_A_ROW, side="left")]


@dataclass(frozen=True)
class AppProgress:
    """What one app read and where it wrote, by names in lineage.

    Attributes:
        reads: Rows read from each source up to the end of each batch, by source.
        sink: Where it writes; "" if that does not show.
    """

    reads: Mapping[str, Steps] = field(default_factory=dict)
    sink: str = ""


def progress(batches: Sequence[BatchMetrics]) -> AppProgress:
    """Return an app's progress.

    Args:
        batches: Its committed batches in the order in which they ran.
    """
    at = np.array([batch.time.timestamp() for batch in batches])
    sources = sorted({name for batch in batches for name in batch.sources})
    reads = {name: Steps(at, np.cumsum([float(batch.sources.get(name, 0)) for batch in batches])) for name in sources}
    return AppProgress(reads, next((batch.sink for batch in batches if batch.sink), ""))


def heads(apps: Mapping[str, AppProgress]) -> list[str]:
    """Return the sources that no app writes."""
    written = {app.sink for app in apps.values()}
    return sorted({name for app in apps.values() for name in app.reads} - written)


def waits(apps: Mapping[str, AppProgress], tables: Mapping[str, Steps]) -> list[Span]:
    """Return, for each commit to a first source, when it came and when everything that came from it was processed.

    Args:
        apps: The apps' progress by name.
        tables: Rows committed to each table that an app reads, by the table's name in lineage.
    """
    by_sink = {app.sink: name for name, app in apps.items() if app.sink}
    order = TopologicalSorter({n: {by_sink[s] for s in app.reads if s in by_sink} for n, app in apps.items()})
    in_order = [apps[name] for name in order.static_order()]
    return [span for head in heads(apps) for span in _waits(head, in_order, tables)]


def _waits(head: str, apps: Iterable[AppProgress], tables: Mapping[str, Steps]) -> list[Span]:
    came = tables[head].at_s
    written, done = {head: came}, came  # when each table contains what came from the commits
    for app in apps:
        for source in app.reads.keys() & written.keys():
            at, table = written[source], tables[source]
            position = table.rows if source == head else table.by(at)
            passed = np.where(position > 0, np.maximum(at, _once(app.reads[source], table).reached(position)), at)
            done = np.maximum(done, passed)
            if app.sink:
                written[app.sink] = np.maximum(written.get(app.sink, passed), passed)
    return list(zip(came.tolist(), done.tolist(), strict=True))


def _once(read: Steps, table: Steps) -> Steps:
    """Return what was read of a table in rows of the table.

    A query that reads a source twice counts its rows twice, and the rows of several sources are shares of their sum.
    If an app has read the whole table, its count at the end is the table's.
    """
    whole, counted = (float(steps.rows[-1]) if steps.rows.size else 0.0 for steps in (table, read))
    return Steps(read.at_s, read.rows * whole / counted) if counted > WHOLE * whole else read


def behind(waited: Iterable[Span], max_lag_s: float) -> list[Span]:
    """Return when the oldest row that was not processed end to end was older than the goal.

    Args:
        waited: See :func:`waits`.
        max_lag_s: The goal.
    """
    merged: list[Span] = []
    for begin, end in sorted((came + max_lag_s, done) for came, done in waited if done > came + max_lag_s):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def recover_s(spans: Iterable[Span], step: float, until: float) -> float:
    """Return the time from a step of the rate until the lag was last over the goal; 0 if it never was.

    Args:
        spans: See :func:`behind`.
        step: When the rate rose.
        until: When it changed again: a span that begins later belongs to that change.
    """
    return max((end - step for begin, end in spans if begin < until and end > step), default=0.0)
