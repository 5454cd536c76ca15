"""The section ``join`` of a spec as a policy: what the join may use, and how it adapts to its load.

Utilisation is the tuples that a worker keeps over those that it can keep. Four thresholds decide when to act:

    tau0   workers are removed if utilisation stays at or below it
    tau1   utilisation that the number of workers aims at
    tau2   shedding begins
    tau3   workers are added if utilisation stays at or above it

    0 < tau0 < tau1 < tau2 < tau3 <= 1      (1)

Thresholds that are not set follow from the others. tau1 = tau2 / 2 is the paper's advice. It gives no tau0 and tau3:
tau0 is half of tau1, as tau1 is of tau2, and tau3 leaves a quarter of the range above tau2.

Reference: [ESJ-A] "Adapting to the varying workload", Equation 1.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from millrace.optimizers.api import MillraceError, Options

ABOVE = 0.75
"""Position of tau3 between tau2 and 1, as a share of that range."""


class EsjOptions(Options):
    """How a join adapts to its load.

    Attributes:
        tau2: Shedding begins, (0, 1].
        tau1: Utilisation that the number of workers aims at, (0, 1].
        tau0: Few enough tuples to remove workers, (0, 1].
        tau3: Enough tuples to add workers, (0, 1].
        base: B, share of the new tuples that is shed at tau2, 0..1.
        shedding: Form of the shed factor between tau2 and a full worker.
        trigger: Load by which workers are added and removed. ``offered`` is what the window would hold without
            shedding, now or soon; ``window`` is the fullest worker, as in the paper.
        ahead: Periods to project the offered load ahead by its last growth, >= 0; 0 turns this off.
        lasts_s: How long utilisation must have been tau3 or more before workers are added, seconds, >= 0.
        sheds_s: The same for tau2, with the trigger ``offered``, seconds, >= 0: longer shedding is no burst.
        cool_s: How long utilisation must have been tau0 or less before workers are removed, and the least time between
            any change of their number and a removal, seconds, >= 0.
        alpha: Weight of imbalance against serialisation in the choice of the block size, (0, 0.8).
        block_size: ``optimum``, or ``literal`` for the paper's closed form.
        block_margin: The block size stays unless another costs less by this share, >= 0.
        shed_step: Shed ratios are multiples of this, (0, 0.5].
    """

    section: ClassVar[str] = "join.options"

    tau2: float = Field(0.8, gt=0, le=1)
    tau1: float = Field(default_factory=lambda given: given["tau2"] / 2, gt=0, le=1)
    tau0: float = Field(default_factory=lambda given: given["tau1"] / 2, gt=0, le=1)
    tau3: float = Field(default_factory=lambda given: given["tau2"] + ABOVE * (1 - given["tau2"]), gt=0, le=1)
    base: float = Field(0.1, ge=0, le=1)
    shedding: Literal["linear", "quadratic"] = "linear"
    trigger: Literal["offered", "window"] = "offered"
    ahead: float = Field(4.0, ge=0)
    lasts_s: float = Field(15.0, ge=0)
    sheds_s: float = Field(30.0, ge=0)
    cool_s: float = Field(300.0, ge=0)
    alpha: float = Field(0.5, gt=0, lt=0.8)
    block_size: Literal["optimum", "literal"] = "optimum"
    block_margin: float = Field(0.5, ge=0)
    shed_step: float = Field(0.05, gt=0, le=0.5)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if not self.tau0 < self.tau1 < self.tau2 < self.tau3:
            taus = f"tau0={self.tau0:g}, tau1={self.tau1:g}, tau2={self.tau2:g}, tau3={self.tau3:g}"
            remedy = "Put them in ascending order, or leave out those with a default."
            raise MillraceError(f"{self.section}.tau0..tau3", taus, "0 < tau0 < tau1 < tau2 < tau3 <= 1", remedy)
        return self


class WorkerBounds(Options):
    """Number of workers that a join may have: 1 <= min <= max."""

    section: ClassVar[str] = "join.workers"

    min: int = Field(1, ge=1)
    max: int = Field(8, ge=1)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.min > self.max:
            remedy = "Raise workers.max or lower workers.min."
            raise MillraceError(f"{self.section}.min", self.min, f"<= workers.max = {self.max}", remedy)
        return self


class JoinPolicy(Options):
    """A join's policy, and what it may use.

    Attributes:
        capacity: W, tuples that a worker keeps at most, >= 2.
        window_s: phi, how long tuples stay in the window, seconds of event time, >= 0.
        workers: Bounds of m.
        expected_rows_per_s: Rate of all streams together that the join starts for, event time; None if unknown.
        options: How it adapts.
    """

    section: ClassVar[str] = "join"

    capacity: int = Field(ge=2)
    window_s: float = Field(0.0, ge=0)
    workers: WorkerBounds = Field(default_factory=WorkerBounds, strict=False)
    expected_rows_per_s: float | None = Field(None, ge=0)
    options: EsjOptions = Field(default_factory=EsjOptions, strict=False)
