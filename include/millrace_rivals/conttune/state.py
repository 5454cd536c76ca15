"""Inputs of ContTune other than the present figures: the job's state, its flow ratios, and its memory.

The controller's job states are the paper's, with backPressurePer -> ``backpressured_ratio`` and System.CPU.Usage ->
``slot_busy_ratio`` ([ContTune], Section 7).

Deviation: CPU is the app's occupied task-slot time, waits included. An operator that waits for another system leaves
the processor idle, and would never count as under-provisioned by its CPU usage.

Flow ratios are running means of the rows that an edge's consumer receives per row that its producer takes in. They
carry the true arrival rate from the sources to every operator, however the job is throttled. One evaluation's ratio is
noisy (a window emits in bursts), and while operators hold each other up, rows that queue between them falsify it: such
an evaluation counts only if nothing better is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Self

from millrace.optimizers.conttune.job_graph import EdgeId, Job
from millrace.optimizers.memory import items, number, whole
from millrace_rivals.carried_rates import measured_ratios
from millrace_rivals.conttune.options import ContTuneOptions
from millrace_rivals.last_step import LastStep

IDLE, BIG = "idle", "big"
MEAN_OF = 50
"""Evaluations that the mean of a flow ratio remembers."""


class JobState(StrEnum):
    """State of a job for tuning."""

    UNDER = "under-provisioned"
    NORMAL = "well-provisioned"
    OVER = "over-provisioned"
    UNKNOWN = "unknown"


def is_backpressured(backpressured_ratio: float, options: ContTuneOptions) -> bool:
    """Return whether a job is in the backpressure state: backPressurePer >= backpressureThr."""
    return backpressured_ratio >= options.backpressure_thr


def job_state(backpressured_ratio: float | None, slot_busy_ratio: float | None, options: ContTuneOptions) -> JobState:
    """Return the state of a job: both metrics must agree that it is over- or under-provisioned.

    A slot-busy ratio below coreMinThr is cpuLow, above coreMaxThr cpuStress; both thresholds belong to cpuNormal.

    Args:
        backpressured_ratio: 0..1; None if unknown.
        slot_busy_ratio: 0..1; None if unknown.
        options: The thresholds.
    """
    if backpressured_ratio is None or slot_busy_ratio is None:
        return JobState.UNKNOWN
    backpressured = is_backpressured(backpressured_ratio, options)
    if backpressured and slot_busy_ratio > options.core_max_thr:
        return JobState.UNDER
    if not backpressured and slot_busy_ratio < options.core_min_thr:
        return JobState.OVER
    return JobState.NORMAL


class MeanRatio(NamedTuple):
    """A running mean >= 0, and its number of evaluations; 0 if all of them were throttled."""

    mean: float
    evaluations: int = 0


MeanRatios = Mapping[EdgeId, MeanRatio]


def update_ratios(job: Job, before: MeanRatios, *, throttled: bool) -> MeanRatios:
    """Return the ratios with this evaluation's added.

    Args:
        job: The job in this evaluation.
        before: The ratios so far.
        throttled: True if its operators hold each other up.
    """
    ratios = dict(before)
    for edge, ratio in measured_ratios(job).items():
        known = before.get(edge, MeanRatio(ratio))
        if not math.isfinite(ratio) or (throttled and known.evaluations):
            continue
        n = 0 if throttled else min(known.evaluations + 1, MEAN_OF)
        ratios[edge] = MeanRatio(ratio if n <= 1 else known.mean + (ratio - known.mean) / n, n)
    return ratios


@dataclass(frozen=True)
class JobMemory:
    """Memory of one job.

    Attributes:
        p_max: Highest level the Big phase has set; 0 before any.
        phase: ``big`` while a tuning is in its Big phase, else ``idle``.
        step: The last own step; None before any.
        ratios: Running means of the flow ratios by edge.
    """

    p_max: int = 0
    phase: str = IDLE
    step: LastStep | None = None
    ratios: MeanRatios = field(default_factory=dict)

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Return a stored memory; unreadable parts count as missing."""
        return cls(
            p_max=whole(stored.get("p_max")),
            phase=BIG if stored.get("phase") == BIG else IDLE,
            step=LastStep.read(stored.get("step")),
            ratios=dict(ratio for value in items(stored.get("ratios")) if (ratio := _ratio(value)) is not None),
        )

    def to_json(self) -> Mapping[str, Any]:
        """Return the memory as a JSON value."""
        return {
            "p_max": self.p_max,
            "phase": self.phase,
            "step": None if self.step is None else self.step.to_json(),
            "ratios": [[*edge, *ratio] for edge, ratio in sorted(self.ratios.items())],
        }


def _ratio(value: object) -> tuple[EdgeId, MeanRatio] | None:
    match items(value):
        case (str(producer), str(consumer), stored, evaluations) if (mean := number(stored, 0.0)) is not None:
            return (producer, consumer), MeanRatio(mean, whole(evaluations))
    return None
