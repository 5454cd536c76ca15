"""Options of literal ContTune: the paper's parameters, each of its ablations, and the options of a strong rival.

Reference:
    [ContTune] Lian et al., "ContTune: Continuous Tuning by Conservative Bayesian Optimization for Distributed Stream
    Data Processing Systems", PVLDB 2023.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from millrace.optimizers.api import MillraceError, Options

STRONG = ("known_arrival_rate", "unstick", "stop_rule")
"""Options that the preset ``strong`` switches on."""


class ContTuneOptions(Options):
    """How ContTune decides.

    Attributes:
        preset: ``literal`` is the paper as written; ``strong`` adds what is needed to reach its published figures:
            lambda is known, Algorithm 2 can leave a level that it sticks to, and a healthy step is left alone. Any
            option can be combined with a preset.
        big: The Big phase (Algorithm 1, lines 3-17). Without it an under-provisioned job goes straight to Small.
        small: The Small phase: ``cbo`` (Algorithm 2), ``linear`` (DS2 alone: the paper's "Big + DS2"), or ``none``.
        alpha: Largest distance of p_acq to an observed level at which the model is trusted, >= 0. The paper evaluates 0
            and 3; infinity is Bayesian optimisation without the conservative part.
        acquisition: ``safe`` (Eq. 5) or ``cei`` (Eq. 4). The paper's rival CEI is ``cei`` with an infinite alpha.
        surrogate: ``rbf`` (the authors': zero mean, no noise, raw values) or ``rbf_white`` (values normalised, noise
            fitted).
        top_k: Most recent observations per operator and level that are averaged (Section 7; K = 5 in the authors'
            table), >= 1; 1 is the paper's ablation without Top-K and mean-reversion.
        decision_thr: decisionThr, least relative change of an operator's p, either way, that is worth a reconfiguration
            of the job, >= 0. The default lets every step below 11 pass.
        backpressure_thr: backpressureThr as a ratio, [0, 1].
        core_min_thr: coreMinThr on the slot-busy ratio, [0, 1): below is cpuLow.
        core_max_thr: coreMaxThr, (core_min_thr, 1]: above is cpuStress. The defaults of both are for micro-batches,
            whose fixed costs leave slots idle even in an overloaded app; pipelined operators need about 0.85 and 0.95.
        headroom: lambda is served with this much to spare, as a ratio, >= 0; the paper serves lambda alone.
        known_arrival_rate: lambda is the true arrival rate, carried through the DAG by learned flow ratios, and no Big
            phase is needed to see it. Otherwise it is the observed rate, which is lambda only while the job keeps up.
        unstick: Algorithm 2 cannot leave an over-provisioned level that it has observed (distance 0): go to p_lin then.
        stop_rule: After a healthy own step none follows until the load changes or the job is under-provisioned, and
            there is no step down for less than ``slack``.
        slack: Least share of some operator's processing ability that must be unused before a step down, and least
            relative change of a rate that ends the rest after a step, [0, 1).
    """

    preset: Literal["literal", "strong"] = "literal"
    big: bool = True
    small: Literal["cbo", "linear", "none"] = "cbo"
    alpha: float = Field(3.0, ge=0, allow_inf_nan=True)
    acquisition: Literal["safe", "cei"] = "safe"
    surrogate: Literal["rbf", "rbf_white"] = "rbf"
    top_k: int = Field(5, ge=1)
    decision_thr: float = Field(0.1, ge=0)
    backpressure_thr: float = Field(0.1, ge=0, le=1)
    core_min_thr: float = Field(0.4, ge=0, lt=1)
    core_max_thr: float = Field(0.7, gt=0, le=1)
    headroom: float = Field(0.0, ge=0)
    known_arrival_rate: bool = False
    unstick: bool = False
    stop_rule: bool = False
    slack: float = Field(0.1, ge=0, lt=1)

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, given: Any) -> Any:
        return {**dict.fromkeys(STRONG, True), **given} if given.get("preset") == "strong" else given

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.core_min_thr >= self.core_max_thr:
            key, allowed = f"{self.section}.core_min_thr", f"below core_max_thr ({self.core_max_thr:g})"
            raise MillraceError(key, self.core_min_thr, allowed, "Lower it, or raise core_max_thr.")
        return self

    @property
    def uses_big(self) -> bool:
        """True if lambda is hidden while the job is under-provisioned, and the Big phase uncovers it."""
        return self.big and not self.known_arrival_rate
