"""What a tuner would have done on recorded telemetry, beside what was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from millrace.model.decision import Action


@dataclass(frozen=True)
class EvaluationResult:
    """What one evaluation decided, as recorded or as replayed.

    Attributes:
        slots: Slots that the Deployment wanted at the evaluation.
        running: Slots that ran in its period; others than wanted while a change is under way.
        decided: Slots that the Deployment wants after its Decision.
        ability_rows_per_s: Rate that what ran sustains; None if unknown.
        backlog_rows: Rows waiting at the end of the period; None if unknown.
        action: What became of the evaluation.
        reason_code: Its reason, in snake case.
        sentence: Its reason for a person.
        contingencies: What was planned for more arrival before the next evaluation, for a person; empty without a plan.
    """

    slots: int
    running: int
    decided: int
    ability_rows_per_s: float | None
    backlog_rows: int | None
    action: Action
    reason_code: str
    sentence: str
    contingencies: str = ""


@dataclass(frozen=True)
class ReplayedEvaluation:
    """One recorded evaluation, and the same under the tuner.

    Attributes:
        time: When it was (UTC).
        span_s: Time that it stands for, since the one before it, seconds.
        arrival_rows_per_s: What arrived, the same for both; None if unknown.
        recorded: What was decided.
        replayed: What the tuner would have decided.
        modelled: True if the replay had other slots than the recording, or another backlog, so that the tuner saw
            modelled signals in place of recorded ones.
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
        """Return whether more arrived than the slots of a result sustain."""
        arrival, ability = self.arrival_rows_per_s, result.ability_rows_per_s
        return arrival is not None and ability is not None and arrival > ability


@dataclass(frozen=True)
class Totals:
    """What was done, or would have been done, in figures.

    Attributes:
        reconfigurations: Changes of the slots that the Deployment wants.
        core_s: Slots that ran times the time they did, core-seconds.
        under_provisioned: Evaluations at which more arrived than the slots that ran sustain.
        peak_slots: Most slots that were wanted.
    """

    reconfigurations: int
    core_s: float
    under_provisioned: int
    peak_slots: int


@dataclass(frozen=True)
class Backtest:
    """A pipeline's recorded telemetry taken through a tuner.

    Attributes:
        pipeline: Name of the pipeline.
        tuner: Registry name of the tuner.
        options: Its options.
        evaluations: Every evaluation, oldest first; at least one.
        recorded: What was done, in figures.
        replayed: What the tuner would have done, in figures.
        downtime_s: What a modelled restart cost, seconds.
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
        """The whole in figures by name: what is compared as ``<figure>_recorded`` and ``<figure>_replayed``."""
        count = len(self.evaluations)
        # "looks" is the former name of "evaluations", for one release
        figures: dict[str, float] = {"evaluations": count, "looks": count}
        figures |= {"agreed": self.agreed, "modelled": self.modelled}
        for total in fields(Totals):
            figures[f"{total.name}_recorded"] = getattr(self.recorded, total.name)
            figures[f"{total.name}_replayed"] = getattr(self.replayed, total.name)
        return figures


@dataclass(frozen=True)
class BacktestSummary:
    """What came of a Backtest (a row of ``control/replays``).

    Attributes:
        pipeline: Name of the pipeline.
        time: When it was made (UTC).
        tuner: Registry name of the tuner.
        options: Its options.
        sentence: What would have been.
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
