"""Whether an app's figures are those of its newest version: which version ran, and whether it still settles."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from millrace.control.batch_history import CLOCK_STEP, History, is_idle_marker
from millrace.control.change_results import since_s
from millrace.model.decision import Reconfiguration
from millrace.model.telemetry import BatchMetrics

SETTLED_BATCHES = 2
"""Healthy batches after a reconfiguration, without its cold first one, before figures are trusted. Fewer are enough if
they fill a period. A lower number would still measure the predecessor; with a higher one, an app that is far too small
would wait for its own long batches."""


def version_that_ran(history: History, changes: Sequence[Reconfiguration], latest: int) -> int:
    """Return the Deployment version of the running generation: a proposal built on an older one must not win."""
    for change in changes:
        if change.generation == history.newest.generation and change.to_version is not None:
            return change.to_version
    return latest


def is_settling(
    history: History,
    counted: Sequence[BatchMetrics],
    changes: Sequence[Reconfiguration],
    now: datetime,
    open_at_most_s: float,
    period_s: float,
) -> bool:
    """Return whether the last reconfiguration is still open, or too few healthy batches have followed it.

    An idle app writes markers instead of batches. They count, or a quiet night could never be used to scale down. If
    the clock was set back after the change, all rows of its driver have followed it. A period in which no batch ran,
    whatever waits, is enough too: there is nothing to settle.
    """
    if not changes:
        return False
    last = changes[0]
    if last.ended is None and since_s(now, last.started) < open_at_most_s:
        return True
    begun = [r for r in history.rows if r.generation >= (last.generation or 0)]
    end = last.ended or last.started
    end = end if end <= now + CLOCK_STEP else history.rows[0].time - CLOCK_STEP
    following = [r for r in counted if r.generation >= (last.generation or 0) and r.time > end]
    idle = [r for r in begun if is_idle_marker(r) and r.backlog_rows == 0 and r.time > end]
    filled = sum(max(r.duration_s, r.trigger_s or 0.0) for r in following) >= period_s
    return not filled and not _silent(begun, end, period_s) and len(following) + len(idle) < SETTLED_BATCHES


def _silent(rows: Sequence[BatchMetrics], end: datetime, period_s: float) -> bool:
    """Return whether markers show a period after a change's end in which no batch ran."""
    if not rows or not is_idle_marker(rows[-1]):
        return False
    since = max([r.time for r in rows if not is_idle_marker(r)] + [end])
    return (rows[-1].time - since).total_seconds() >= period_s
