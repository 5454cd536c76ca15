"""The figures of a run.

A *tuning* is an interval that starts with a change of the workload (``Workload.tunings``).

Figures (``core`` is one slot; sums over all units that can be sized):
    reconfigurations_per_tuning: Reconfigurations over tunings. ``reconfigurations_up`` and ``reconfigurations_down``
        raised or lowered the sum of p; a reconfiguration that only shifts slots is neither.
    bad_per_tuning: Reconfigurations whose configuration is truly under-provisioned for the offered rate at the time of
        the decision (a true PA(p) below the unit's need, beyond rounding; a micro-batch app: it cannot sustain the
        rate), over tunings. If no p within the bounds is sufficient, a reconfiguration is bad if a better one exists
        (:mod:`benchmarks.simulation.truth`).
    throttled_ratio: Share of time in which arrivals exceed the configuration's capacity, or nothing runs. Draining a
        backlog is not throttling.
    core_seconds_vs_oracle: Integral of the sum of p over that of the least sufficient p at each moment.
    peak_vs_oracle: Highest sum of p over the highest sum of the least sufficient p.
    non_converged: Share of tunings whose last configuration is under-provisioned at their end.
    backlogged_ratio: Share of rows that arrive at a source while more than a second of its arrivals waits there.
    backlog_s: Mean over time of waiting rows over arrival rate, seconds; time without arrivals is left out.
    tuning_s: Mean time from a tuning's start to the end of its last reconfiguration; 0 without one.
    latency_p99_s: 99th percentile over time of waiting rows over their processing rate, plus the rest of a downtime,
        plus the duration of the running batch.

In a micro-batch app, rows also wait for the next batch in normal operation. There, ``backlogged_ratio`` and
``backlog_s`` count only the excess over two of the longest batches that the objective plans for (one runs, one
collects).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.simulation.ability import Array
from benchmarks.simulation.run import Run, Step
from benchmarks.simulation.segment import Segment

WAITING_S = 1.0
"""Seconds of arrivals that may wait without counting as a backlog."""
PIECES = 16
"""Points of time at which a segment's latency is sampled."""


def score(run: Run, from_tuning: int | None = None) -> Mapping[str, float]:
    """Return the figures of a run by name.

    Args:
        run: The run.
        from_tuning: First tuning that counts: 10 is the second half of the paper's twenty, after all rates were seen.
            None for the scenario's.
    """
    begins = run.scenario.workload.tunings[run.scenario.from_tuning if from_tuning is None else from_tuning :]
    end = run.scenario.workload.until
    parts = [part for s in run.segments if (part := _within(s, begins[0], end)) is not None]
    steps = [s for s in run.steps if s.reconfigures and s.at_s >= begins[0]]
    n = len(begins)
    return {
        "reconfigurations_per_tuning": len(steps) / n,
        "reconfigurations_up": sum(sum(s.after) > sum(s.before) for s in steps) / n,
        "reconfigurations_down": sum(sum(s.after) < sum(s.before) for s in steps) / n,
        "bad_per_tuning": sum(not s.adequate for s in steps) / n,
        "non_converged": sum(not _last(parts, t).adequate for t in (*begins[1:], end)) / n,
        "tuning_s": _tuning_s(steps, begins),
        **_cores(parts),
        **_waiting(parts),
    }


def recoveries(run: Run) -> tuple[int, ...]:
    """Return the reconfigurations per sudden drift: from its start until the next change of the workload."""
    workload, found = run.scenario.workload, []
    for event in run.scenario.drift.events:
        if event.over_s <= 0 and event.at_s < workload.until:
            changes = (*workload.times, workload.until)
            until = changes[bisect_right(changes, event.at_s)]
            found.append(sum(s.reconfigures for s in run.steps if event.at_s < s.at_s <= until))
    return tuple(found)


def _cores(parts: Sequence[Segment]) -> Mapping[str, float]:
    dt = np.array([s.until - s.since for s in parts])
    used = np.array([sum(s.parallelism) for s in parts], dtype=float)
    least = np.array([sum(s.reference) for s in parts], dtype=float)
    throttled = np.array([s.down or s.short for s in parts])
    return {
        "core_seconds_vs_oracle": float(used @ dt / (least @ dt)),
        "peak_vs_oracle": float(used.max() / least.max()),
        "throttled_ratio": float(throttled @ dt / dt.sum()),
    }


def _waiting(parts: Sequence[Segment]) -> Mapping[str, float]:
    dt = np.array([s.until - s.since for s in parts])
    rates = np.array([s.rates for s in parts])
    before, after = np.array([s.before for s in parts]), np.array([s.after for s in parts])
    allowed = np.array([s.allowed_s for s in parts])
    arrived = rates * dt[:, None]
    over = _share_above(before, after, rates * (WAITING_S + allowed)[:, None])
    total = rates.sum(axis=1)
    ordinary = total * allowed
    excess = _mean_above(before.sum(axis=1), after.sum(axis=1), ordinary)
    comes = total > 0
    waited = excess[comes] / total[comes]
    return {
        "backlogged_ratio": float((over * arrived).sum() / arrived.sum()) if arrived.sum() > 0 else 0.0,
        "backlog_s": float(waited @ dt[comes] / dt[comes].sum()) if comes.any() else 0.0,
        "latency_p99_s": _latency(parts, dt, before.sum(axis=1), after.sum(axis=1)),
    }


def _latency(parts: Sequence[Segment], dt: Array, before: Array, after: Array) -> float:
    middles = (np.arange(PIECES) + 0.5) / PIECES
    rows = before[:, None] + (after - before)[:, None] * middles - np.array([s.batch_rows for s in parts])[:, None]
    pace = np.array([s.pace for s in parts])[:, None]
    waits = np.divide(rows, pace, out=np.zeros_like(rows), where=pace > 0)
    left = _downtime_left(parts)[:, None] - dt[:, None] * middles
    down = np.array([s.down for s in parts])[:, None]
    seconds = waits + np.where(down, left, 0.0) + np.array([s.batch_s for s in parts])[:, None]
    weights = np.repeat(dt / PIECES, PIECES)
    order = np.argsort(seconds, axis=None)
    reached = np.cumsum(weights[order])
    return float(seconds.ravel()[order][np.searchsorted(reached, 0.99 * reached[-1])])


def _downtime_left(parts: Sequence[Segment]) -> Array:
    """Return the seconds from each segment's start until something runs again."""
    left, resumes = np.zeros(len(parts)), 0.0
    for i in range(len(parts) - 1, -1, -1):
        if parts[i].down:
            resumes = resumes or parts[i].until
            left[i] = resumes - parts[i].since
        else:
            resumes = 0.0
    return left


def _share_above(before: Array, after: Array, limit: Array) -> Array:
    """Return the share of time above ``limit`` for a value that changes linearly from ``before`` to ``after``."""
    low, high = np.minimum(before, after), np.maximum(before, after)
    span = np.where(high > low, high - low, 1.0)
    share = np.where(high > low, (high - limit) / span, (high > limit).astype(float))
    return np.clip(share, 0.0, 1.0)


def _mean_above(before: Array, after: Array, limit: Array) -> Array:
    """Return the mean over time of the excess over ``limit``."""
    share = _share_above(before, after, limit)
    # a linear change: the area above the limit is a trapezium, or a triangle that starts at the limit
    high, low = np.maximum(before, after) - limit, np.maximum(np.minimum(before, after) - limit, 0.0)
    return share * (high + low) / 2


def _tuning_s(steps: Sequence[Step], begins: Sequence[float]) -> float:
    lasted = dict.fromkeys(range(len(begins)), 0.0)
    for step in steps:
        tuning = bisect_right(begins, step.at_s) - 1
        lasted[tuning] = step.ended_s - begins[tuning]
    return sum(lasted.values()) / len(begins)


def _last(parts: Sequence[Segment], end: float) -> Segment:
    """Return the segment in which a tuning ends."""
    return parts[bisect_left(parts, end, key=lambda s: s.until)]


def _within(segment: Segment, begin: float, end: float) -> Segment | None:
    """Return the part of a segment between two times; None if there is none."""
    since, until = max(segment.since, begin), min(segment.until, end)
    if since >= until:
        return None
    if since == segment.since and until == segment.until:
        return segment
    whole = segment.until - segment.since

    def at(time: float) -> tuple[float, ...]:
        share = (time - segment.since) / whole
        return tuple(b + (a - b) * share for b, a in zip(segment.before, segment.after, strict=True))

    return segment._replace(since=since, until=until, before=at(since), after=at(until))
