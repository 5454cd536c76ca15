"""Options of ContTune: the paper's parameters and ablations, and each correction of it by name.

Two presets: ``literal`` is the paper as written, ``corrected`` (the default) has every correction on. Any option can
be set beside a preset.

Reference:
    [ContTune] Lian et al., "ContTune: Continuous Tuning by Conservative Bayesian Optimization for Distributed Stream
    Data Processing Systems", PVLDB 2023.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from include.contracts.errors import MillraceError
from optimizers.conttune.ranges import check, key


@dataclass(frozen=True)
class Options:
    """How ContTune decides.

    Attributes:
        big: The Big phase (Algorithm 1, lines 3-17). Without it an under-provisioned job goes straight to Small.
        small: The Small phase: ``cbo`` (Algorithm 2), ``linear`` (DS2 alone: the paper's "Big + DS2"), or ``none``.
        alpha: Largest distance of p_acq to an observed level at which the model is trusted, >= 0. The paper evaluates
            0 and 3; infinity is Bayesian optimisation without the conservative part.
        acquisition: ``safe`` (Eq. 5) or ``cei`` (Eq. 4).
        surrogate: ``rbf`` (zero mean, RBF, no noise, raw values: the authors' GP) or ``power_law`` (corrected).
        top_k: Most recent observations per operator and level that are averaged (Section 7; K = 5 in the paper), >= 1.
        decision_thr: Least relative change of p, either way, that is worth a reconfiguration (Section 7), >= 0.
            The default lets every step below 11 slots pass.
        backpressure_thr: backpressureThr as a ratio, [0, 1].
        core_min_thr: coreMinThr on the slot-busy ratio, [0, 1): below is cpuLow.
        core_max_thr: coreMaxThr, (core_min_thr, 1]: above is cpuStress. Fixed costs of a micro-batch leave slots idle
            even in an overloaded app, hence well below 1.
        known_arrival_rate: lambda is the measured arrival rate, so that no Big phase is needed to see it; otherwise
            the processed rate, which tells the arrival rate only while the app keeps up.
        catch_up: Serve also the backlog within catch_up_s, never the part that Millrace's own restart caused; no step
            down while a backlog drains.
        unstick: Algorithm 2 cannot leave an over-provisioned level that it has observed (distance 0): go to p_lin then.
        stop_rule: Step down only where ``slack`` can be won and the lower level is feasible with ``hysteresis`` to
            spare at the lower confidence bound; step up only where the plan is missed by more than ``tolerance``.
        slack: Least share of the present ability that must be unused before a step down, [0, 1).
        hysteresis: What a lower level must be able to process beyond what is asked, as a ratio, >= 0.
        tolerance: A utilisation above the planned one by this share is no reason for a step up, >= 0: the model is not
            surer than that, and a restart costs more.
        confidence: Level of the lower and the upper bound, each one-sided, [0.5, 1).
        micro_batch: Feasible where rho <= target_utilisation and o(p) / (1 - rho) <= max_lag_s, and the job state
            follows from that; otherwise PA >= lambda, and the paper's state rule.
        monotone: The curve never falls, and rises at most linearly beyond the highest observed level.
        ineffective_stop: No step up beyond a level from which more slots were measured to bring nothing.
        ineffective_thr: Least share of the gain that the prior predicts which counts as an effect, [0, 1].
        ineffective_for_s: How long such a measurement stands, seconds, > 0: its cause may be gone by then.
        whole_windows: An app that keeps up takes no step in the first look after the rate jumped, for its period is
            half old and would lead to a step halfway; at most one look is waited for. One that does not keep up cannot
            wait: its batches grow, and with them the time to the next look.
        source_splits: No step up where fewer tasks than slots ran.
        exponent: Prior of the exponent e in PA(p) ~ p^e, (0, 1.5]. Used by the ``power_law`` surrogate, by
            ``ineffective_stop`` and by p_lin upward (1 is DS2).
        exponent_sd: Standard deviation of that prior, (0, 1].
    """

    big: bool = True
    small: str = "cbo"
    alpha: float = 3.0
    acquisition: str = "safe"
    surrogate: str = "power_law"
    top_k: int = 5
    decision_thr: float = 0.1
    backpressure_thr: float = 0.1
    core_min_thr: float = 0.4
    core_max_thr: float = 0.7
    known_arrival_rate: bool = True
    catch_up: bool = True
    unstick: bool = True
    stop_rule: bool = True
    slack: float = 0.25
    hysteresis: float = 0.1
    tolerance: float = 0.05
    confidence: float = 0.9
    micro_batch: bool = True
    monotone: bool = True
    ineffective_stop: bool = True
    ineffective_thr: float = 0.2
    ineffective_for_s: float = 3600.0
    whole_windows: bool = True
    source_splits: bool = True
    exponent: float = 0.9
    exponent_sd: float = 0.1

    def __post_init__(self) -> None:
        """Refuse values of a wrong type or out of range.

        Raises:
            MillraceError: With the option, its value, the allowed range and the remedy.
        """
        for field in fields(self):
            check(field.name, getattr(self, field.name))
        if self.core_min_thr >= self.core_max_thr:
            allowed = f"below core_max_thr ({self.core_max_thr:g})"
            raise MillraceError(key("core_min_thr"), self.core_min_thr, allowed, "Lower it, or raise core_max_thr.")

    @property
    def uses_big(self) -> bool:
        """True if lambda is hidden while the app is under-provisioned, and the Big phase uncovers it."""
        return self.big and not self.known_arrival_rate


CORRECTED = Options()
LITERAL = replace(
    CORRECTED,
    surrogate="rbf",
    known_arrival_rate=False,
    catch_up=False,
    unstick=False,
    stop_rule=False,
    micro_batch=False,
    monotone=False,
    ineffective_stop=False,
    whole_windows=False,
    source_splits=False,
    exponent=1.0,
)
PRESETS: Mapping[str, Options] = MappingProxyType({"corrected": CORRECTED, "literal": LITERAL})


def parse(options: Mapping[str, Any]) -> Options:
    """Return checked options from a spec's ``tuner.options``.

    Args:
        options: Any field of :class:`Options`, and ``preset`` (``corrected`` or ``literal``), which the others amend.

    Raises:
        MillraceError: If an option is unknown, or a value of a wrong type or out of range.
    """
    given = dict(options)
    preset = given.pop("preset", "corrected")
    if not isinstance(preset, str) or preset not in PRESETS:
        raise MillraceError(key("preset"), preset, ", ".join(sorted(PRESETS)), "Name one of the presets.")
    known = {field.name for field in fields(Options)}
    for name in given:
        if name not in known:
            allowed = ", ".join(sorted(known | {"preset"}))
            raise MillraceError(key(str(name)), given[name], allowed, "Remove the option or correct its name.")
    return replace(PRESETS[preset], **given)
