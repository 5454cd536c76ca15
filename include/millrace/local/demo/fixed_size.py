"""The demo's baseline: a fixed size for the whole run, and the lag it would have had.

Its batches come from the calibrated model (:mod:`millrace.reporting.recorded_throughputs`): fixed cost and throughput
per number of slots, as measured in this run. It reads the real arrivals, from when the first driver was ready.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from millrace.local.demo.timeline import Timeline
from millrace.model.signals import Signals
from millrace.model.spec import PipelineSpec
from millrace.reporting.recorded_throughputs import RecordedThroughput, throughputs

GRID_S = 0.5
MOST_BATCHES = 100_000


@dataclass(frozen=True)
class FixedSize:
    """Figures of a fixed size.

    Attributes:
        slots: Its slots.
        keeps: True if no row waits longer than the goal; False if no allowed size meets it, or nothing was measured.
        behind_s: Time in which the oldest waiting row was older than the goal; None if nothing was measured.
        worst_lag_s: Longest wait of a row; None if nothing was measured.
    """

    slots: int
    keeps: bool
    behind_s: float | None
    worst_lag_s: float | None


def smallest_fixed_size(spec: PipelineSpec, timeline: Timeline) -> FixedSize:
    """Return the smallest allowed size that meets the goal; if none does, the one least behind, the largest if tied.

    The model is of one app. Of several, the peak's slots are returned, without a lag.

    Args:
        spec: The pipeline.
        timeline: The run.
    """
    if len(timeline.apps) > 1:
        return FixedSize(timeline.most_slots, False, None, None)
    known = throughputs(spec.app, _signals(timeline))
    if known.rate(1) is None:
        return FixedSize(spec.bounds_contract().max_slots, False, None, None)
    sizes = [_size(spec, timeline, known, slots) for slots in spec.bounds_contract().levels]
    return next(
        (size for size in sizes if size.keeps), min(sizes, key=lambda size: (size.behind_s or 0.0, -size.slots))
    )


def with_fixed_size(timeline: Timeline, known: RecordedThroughput, slots: int) -> Timeline:
    """Return the run with the batches of a fixed size.

    Args:
        timeline: The run as recorded.
        known: The throughput of the slots.
        slots: The size, >= 1.
    """
    p = known.ran(slots)
    fixed_s, per_s, limit = known.fixed(p), known.rate(p) or math.inf, known.batch_rows or math.inf
    now = min((span.ready_s for span in timeline.spans if span.ready_s is not None), default=0.0)
    ends: list[float] = []
    done: list[float] = []
    taken = 0.0
    total = float(timeline.arrival_rows[-1]) if timeline.arrival_rows.size else 0.0
    while taken < total and now < timeline.length_s and len(ends) < MOST_BATCHES:
        waiting = float(timeline.arrived(np.array([now]))[0]) - taken
        if waiting <= 0:
            now = float(timeline.arrival_s[np.searchsorted(timeline.arrival_rows, taken, side="right")])
            continue
        rows = min(waiting, limit)
        now, taken = now + fixed_s + rows / per_s, taken + rows
        ends.append(now)
        done.append(taken)
    return replace(timeline, batch_s=np.array(ends), batch_rows=np.array(done))


def _size(spec: PipelineSpec, timeline: Timeline, known: RecordedThroughput, slots: int) -> FixedSize:
    goal_s = spec.objective.max_lag_s
    grid = np.arange(0.0, max(timeline.length_s, GRID_S), GRID_S)
    waits = with_fixed_size(timeline, known, slots).oldest_waiting_s(grid)
    return FixedSize(slots, bool(waits.max() <= goal_s), float((waits > goal_s).sum() * GRID_S), float(waits.max()))


def _signals(timeline: Timeline) -> Sequence[Signals]:
    return [e.decision.signals for e in timeline.evaluations if e.decision.signals is not None]
