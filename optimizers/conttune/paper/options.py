"""Options of literal ContTune: the paper's parameters, each ablation of it, and what makes a strong rival of it.

Two presets: ``literal`` (the default) is the paper as written; ``strong`` adds what its published figures cannot be
reached without: lambda is known, a level can be left that Algorithm 2 sticks to, and a healthy step is left alone.
Any option can be set beside a preset.

Reference:
    [ContTune] Lian et al., "ContTune: Continuous Tuning by Conservative Bayesian Optimization for Distributed Stream
    Data Processing Systems", PVLDB 2023.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

from include.model.errors import MillraceError
from optimizers.ranges import NOT_NEGATIVE, SHARE, Allowed, Range, check_fields, key, parse_fields


@dataclass(frozen=True)
class Options:
    """How ContTune decides.

    Attributes:
        big: The Big phase (Algorithm 1, lines 3-17). Without it an under-provisioned job goes straight to Small.
        small: The Small phase: ``cbo`` (Algorithm 2), ``linear`` (DS2 alone: the paper's "Big + DS2"), or ``none``.
        alpha: Largest distance of p_acq to an observed level at which the model is trusted, >= 0. The paper evaluates
            0 and 3; infinity is Bayesian optimisation without the conservative part.
        acquisition: ``safe`` (Eq. 5) or ``cei`` (Eq. 4). The paper's rival CEI is ``cei`` with an infinite alpha.
        surrogate: ``rbf`` (the authors': zero mean, no noise, raw values) or ``rbf_white`` (values normalised, noise
            fitted).
        top_k: Most recent observations per operator and level that are averaged (Section 7; K = 5 in the authors'
            table), >= 1; 1 is the paper's ablation without Top-K and mean-reversion.
        decision_thr: decisionThr, least relative change of an operator's p, either way, that is worth a
            reconfiguration of the job, >= 0. The default lets every step below 11 pass.
        backpressure_thr: backpressureThr as a ratio, [0, 1].
        core_min_thr: coreMinThr on the slot-busy ratio, [0, 1): below is cpuLow.
        core_max_thr: coreMaxThr, (core_min_thr, 1]: above is cpuStress. The defaults of both are for micro-batches,
            whose fixed costs leave slots idle even in an overloaded app; pipelined operators want about 0.85 and 0.95.
        headroom: lambda is served with this much to spare, as a ratio, >= 0; the paper serves lambda alone.
        known_arrival_rate: lambda is the true arrival rate, carried through the DAG by learned flow ratios, so that no
            Big phase is needed to see it; otherwise the observed rate, which is lambda only while the job keeps up.
        unstick: Algorithm 2 cannot leave an over-provisioned level that it has observed (distance 0): go to p_lin then.
        stop_rule: After a healthy own step none follows until the load changes or the job is under-provisioned, and
            nothing is stepped down for less than ``slack``.
        slack: Least share of some operator's processing ability that must be unused before a step down, and least
            relative change of a rate that ends the rest after a step, [0, 1).
    """

    big: bool = True
    small: str = "cbo"
    alpha: float = 3.0
    acquisition: str = "safe"
    surrogate: str = "rbf"
    top_k: int = 5
    decision_thr: float = 0.1
    backpressure_thr: float = 0.1
    core_min_thr: float = 0.4
    core_max_thr: float = 0.7
    headroom: float = 0.0
    known_arrival_rate: bool = False
    unstick: bool = False
    stop_rule: bool = False
    slack: float = 0.1

    def __post_init__(self) -> None:
        """Refuse values of a wrong type or out of range.

        Raises:
            MillraceError: With the option, its value, the allowed range and the remedy.
        """
        check_fields(self, ALLOWED)
        if self.core_min_thr >= self.core_max_thr:
            allowed = f"below core_max_thr ({self.core_max_thr:g})"
            raise MillraceError(key("core_min_thr"), self.core_min_thr, allowed, "Lower it, or raise core_max_thr.")

    @property
    def uses_big(self) -> bool:
        """True if lambda is hidden while the job is under-provisioned, and the Big phase uncovers it."""
        return self.big and not self.known_arrival_rate


ALLOWED: Mapping[str, Allowed] = {
    "small": ("cbo", "linear", "none"),
    "alpha": Range(0, math.inf),
    "acquisition": ("safe", "cei"),
    "surrogate": ("rbf", "rbf_white"),
    "top_k": int,
    "decision_thr": NOT_NEGATIVE,
    "backpressure_thr": Range(0, 1),
    "core_min_thr": Range(0, 1, high_open=True),
    "core_max_thr": SHARE,
    "headroom": NOT_NEGATIVE,
    "slack": Range(0, 1, high_open=True),
    "big": None,
    "known_arrival_rate": None,
    "unstick": None,
    "stop_rule": None,
}

LITERAL = Options()
STRONG = replace(LITERAL, known_arrival_rate=True, unstick=True, stop_rule=True)
PRESETS: Mapping[str, Options] = MappingProxyType({"literal": LITERAL, "strong": STRONG})


def parse(options: Mapping[str, Any]) -> Options:
    """Return checked options from a spec's ``tuner.options``.

    Args:
        options: Any field of :class:`Options`, and ``preset`` (``literal`` or ``strong``), which the others amend.

    Raises:
        MillraceError: If an option is unknown, or a value of a wrong type or out of range.
    """
    given = dict(options)
    preset = given.pop("preset", "literal")
    if not isinstance(preset, str) or preset not in PRESETS:
        raise MillraceError(key("preset"), preset, ", ".join(sorted(PRESETS)), "Name one of the presets.")
    return parse_fields(Options, {**asdict(PRESETS[preset]), **given}, extra=("preset",))
