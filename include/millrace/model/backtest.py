"""What a tuner would have done on recorded telemetry, next to what was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from millrace.model.decision import Action


@dataclass(frozen=True)
class EvaluationResult:
    """The result of one evaluation, as recorded or as replayed.

    Attributes:
        slots: Slots that the Deployment wanted at the evaluation.
        running: Slots that ran in its period; they differ from ``slots`` while a change is under way.
        decided: Slots that the Deployment wants after its Decision.
        throughput_rows_per_s: Rate that the running slots sustain; None if unknown.
        backlog_rows: Rows waiting at the end of the period; None if unknown.
        action: The Decision's action.
        reason_code: Its reason, in snake case.
        sentence: Its reason for a person.
        contingencies: The plan for more arrival before the next evaluation, for a person; empty without a plan.
    """

    slots: int
    running: int
    decided: int
    throughput_rows_per_s: float | None
    backlog_rows: int | None
    action: Action
    reason_code: str
    sentence: str
    contingencies: str = ""


@dataclass(frozen=True)
class ReplayedEvaluation:
    """One recorded evaluation, and the same evaluation under the tuner.

    Attributes:
        time: When it was (UTC).
        span_s: Time that it covers, since the evaluation before, seconds.
        arrival_rows_per_s: Arrival rate, the same for both; None if unknown.
        recorded: The recorded result.
        replayed: The tuner's result.
        modelled: True if the replay had other slots or another backlog than the recording, so the tuner saw modelled
            signals instead of recorded ones.
    """

    time: datetime
    span_s: float
    arrival_rows_per_s: float | None
    recorded: EvaluationResult
    replayed: EvaluationResult
    modelled: bool

    @property
    def agreed(self) -> bool:
        """True if both wanted the same slots afterwards."""
        return self.recorded.decided == self.replayed.decided

    def under_provisioned(self, result: EvaluationResult) -> bool:
        """Return whether more arrived than a result's slots sustain."""
        arrival, throughput = self.arrival_rows_per_s, result.throughput_rows_per_s
        return arrival is not None and throughput is not None and arrival > throughput


@dataclass(frozen=True)
class Totals:
    """Figures of what was done, or would have been done.

    Attributes:
        reconfigurations: Changes of the slots that the Deployment wants.
        core_s: Slots times the time that they ran, core-seconds.
        under_provisioned: Evaluations at which more arrived than the running slots sustain.
        peak_slots: Most slots that were wanted.
    """

    reconfigurations: int
    core_s: float
    under_provisioned: int
    peak_slots: int


@dataclass(frozen=True)
class Backtest:
    """A replay of a pipeline's recorded telemetry with a tuner.

    Attributes:
        pipeline: Name of the pipeline.
        tuner: Registry name of the tuner.
        options: Its options.
        evaluations: Every evaluation, oldest first; at least one.
        recorded: Figures of what was done.
        replayed: Figures of what the tuner would have done.
        downtime_s: Downtime of a modelled restart, seconds.
    """

    pipeline: str
    tuner: str
    options: Mapping[str, Any]
    evaluations: tuple[ReplayedEvaluation, ...]
    recorded: Totals
    replayed: Totals
    downtime_s: float

    @property
    def agreed(self) -> int:
        """Evaluations after which both wanted the same slots."""
        return sum(e.agreed for e in self.evaluations)

    @property
    def modelled(self) -> int:
        """Evaluations at which the tuner saw modelled signals."""
        return sum(e.modelled for e in self.evaluations)

    @property
    def figures(self) -> Mapping[str, float]:
        """All figures by name, compared ones as ``<figure>_recorded`` and ``<figure>_replayed``."""
        count = len(self.evaluations)
        figures: dict[str, float] = {"evaluations": count, "agreed": self.agreed, "modelled": self.modelled}
        for total in fields(Totals):
            figures[f"{total.name}_recorded"] = getattr(self.recorded, total.name)
            figures[f"{total.name}_replayed"] = getattr(self.replayed, total.name)
        return figures


@dataclass(frozen=True)
class BacktestSummary:
    """The result of a Backtest (a row of ``control/replays``).

    Attributes:
        pipeline: Name of the pipeline.
        time: When it was made (UTC).
        tuner: Registry name of the tuner.
        options: Its options.
        sentence: Its result, for a person.
        figures: :attr:`Backtest.figures`.
        run_id: The MLflow run; None without one.
    """

    pipeline: str
    time: datetime
    tuner: str
    options: Mapping[str, Any]
    sentence: str
    figures: Mapping[str, float]
    run_id: str | None
