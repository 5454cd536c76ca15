"""Figures of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from millrace.local.demo.fixed_size import FixedSize, smallest_fixed_size
from millrace.local.demo.timeline import Timeline
from millrace.model.decision import LIVE, RESTART, Outcome, Reconfiguration
from millrace.model.spec import PipelineSpec

GRID_S = 0.25
PEAK_WINDOW_S = 15.0
"""A fixed size is planned for peaks that last this long. A single full commit is not a peak."""


@dataclass(frozen=True)
class Figures:
    """Figures of a run.

    Attributes:
        rows: Rows that arrived.
        peak_rows_per_s: Highest rate over PEAK_WINDOW_S.
        actions: Number of evaluations by action.
        reconfigurations: Decisions whose changes of slots became ready.
        downtime_s: Sum of their downtimes, each from the last commit before to the first commit after.
        longest_downtime_s: The longest of them.
        time_behind_s: Time in which the oldest waiting row was older than the objective's max_lag_s.
        worst_lag_s: Longest wait of a row.
        slots_least, slots_most: Fewest and most slots in use, of all apps together.
        core_s: Slots times running time, summed over drivers; hand-overs count twice.
        fixed: The fixed size to compare with.
        fixed_core_s: Its core-seconds over the same time.
        grown_s: Duration of each scale-up without a restart, from its version to its executors.
        start_s: Duration of the driver's first start, which a restart would take again; None if it never was ready.
    """

    rows: int
    peak_rows_per_s: float
    actions: Mapping[str, int]
    reconfigurations: int
    downtime_s: float
    longest_downtime_s: float
    time_behind_s: float
    worst_lag_s: float
    slots_least: int
    slots_most: int
    core_s: float
    fixed: FixedSize
    fixed_core_s: float
    grown_s: tuple[float, ...] = ()
    start_s: float | None = None

    @property
    def saved_ratio(self) -> float:
        """Share of the fixed size's core-seconds that were saved; below 0 if more were used."""
        return 1 - self.core_s / self.fixed_core_s if self.fixed_core_s else 0.0


def figures(spec: PipelineSpec, timeline: Timeline) -> Figures:
    """Return the figures of a run."""
    grid = np.arange(0.0, max(timeline.length_s, GRID_S), GRID_S)
    waiting = timeline.oldest_waiting_s(grid)
    peak = float(timeline.rate(grid, PEAK_WINDOW_S).max())
    changed = [c for c in timeline.changes if c.decision_id and c.outcome is Outcome.READY]
    downtimes = [c.downtime_s for c in changed if c.downtime_s is not None]
    fixed = smallest_fixed_size(spec, timeline)
    served_s = max((s.end_s for s in timeline.spans), default=0.0) - min(
        (s.start_s for s in timeline.spans), default=0.0
    )
    return Figures(
        rows=int(timeline.arrival_rows[-1]) if timeline.arrival_rows.size else 0,
        peak_rows_per_s=peak,
        actions=Counter(evaluation.decision.action.value for evaluation in timeline.evaluations),
        reconfigurations=len({c.decision_id for c in changed}),
        downtime_s=sum(downtimes),
        longest_downtime_s=max(downtimes, default=0.0),
        time_behind_s=float((waiting > spec.objective.max_lag_s).sum() * GRID_S),
        worst_lag_s=float(waiting.max()),
        slots_least=sum(
            min((s.slots for s in timeline.spans if s.app == app and s.ready_s is not None), default=0)
            for app in timeline.apps
        ),
        slots_most=timeline.most_slots,
        core_s=sum(s.slots * (s.end_s - s.start_s) for s in timeline.spans),
        fixed=fixed,
        fixed_core_s=fixed.slots * served_s,
        grown_s=tuple(_took_s(c) for c in changed if c.tier == LIVE and c.decision_id in _growths(timeline)),
        start_s=next((_took_s(c) for c in timeline.changes if c.tier == RESTART and c.outcome is Outcome.READY), None),
    )


def _growths(timeline: Timeline) -> set[str]:
    sized = ((e.decision.decision_id, e.before, e.after) for e in timeline.evaluations)
    return {decision_id for decision_id, before, after in sized if before and after and after > before}


def _took_s(change: Reconfiguration) -> float:
    return (change.ended - change.started).total_seconds() if change.ended else 0.0


def restarts_saved(figures: Figures) -> str:
    """Return what the scale-ups would have cost as restarts, as text; empty if there is nothing to compare."""
    if not figures.grown_s or figures.start_s is None:
        return ""
    usual, longest = median(figures.grown_s), max(figures.grown_s)
    return (
        f"No change of slots stopped a driver. New executors were ready after {usual:.1f} s (at most {longest:.1f} s); "
        f"a restart would take about {figures.start_s:.0f} s, as the first start did."
    )


def cards(spec: PipelineSpec, figures: Figures) -> list[tuple[str, str]]:
    """Return the most important figures, each as a value and a label."""
    saved = (
        f"{figures.saved_ratio:+.0%}".replace("+", "−") if figures.saved_ratio >= 0 else f"+{-figures.saved_ratio:.0%}"
    )
    evaluations = sum(figures.actions.values())
    return [
        (f"{figures.peak_rows_per_s:.0f} rows/s", "highest event rate"),
        (f"{figures.reconfigurations} of {evaluations}", "evaluations changed the slots"),
        (f"{figures.downtime_s:.1f} s", f"downtime; longest: {figures.longest_downtime_s:.1f} s"),
        (f"{figures.time_behind_s:.0f} s", f"behind: a row waited over {spec.objective.max_lag_s:g} s"),
        (f"{figures.worst_lag_s:.0f} s", "longest time that a row waited"),
        (f"{figures.core_s:,.0f}", "core-seconds used"),
        (saved, f"compared with {figures.fixed.slots} slots all the time ({figures.fixed_core_s:,.0f} core-seconds)"),
        *_modelled(figures.fixed),
    ]


def _modelled(fixed: FixedSize) -> list[tuple[str, str]]:
    """Return the lag of the fixed size, and why this size is the one to compare with; nothing if it has no model."""
    if fixed.behind_s is None or fixed.worst_lag_s is None:
        return []
    why = "the smallest fixed size that meets the goal" if fixed.keeps else "no fixed size meets the goal"
    text = f"behind with {fixed.slots} fixed slots (modelled); {why} (longest wait {fixed.worst_lag_s:.0f} s)"
    return [(f"{fixed.behind_s:.0f} s", text)]
