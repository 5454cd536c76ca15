"""Scale up apps that feed each other in one step, also those that would follow a moment later.

If the rate at the first app rises, each app exceeds its throughput at another moment of the rise. One change for each
of them is what sizing a whole graph should avoid ([ContTune], Section 1: one reconfiguration for all operators).

Reference: own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from millrace.model.signals import Signals
from millrace.optimizers.conttune.messages import Reason, count, message, number
from millrace.optimizers.conttune.sizing import Sizing

AHEAD = 1.25
"""Once one app is scaled up, the others are if they would be at this many times the present rate."""


def scaled_together(
    sizings: Sequence[Sizing], each: Sequence[Signals], size: Callable[[Signals], Sequence[Sizing]]
) -> Sequence[Sizing]:
    """Return the sizings of apps that feed each other, with those that follow a scale-up.

    Args:
        sizings: The sizings of all apps.
        each: Each app's signals.
        size: Returns the sizings of one app for its signals.
    """
    rises = any(s.need is not None and s.target > (s.operator.now or 0) for s in sizings)
    if len(each) < 2 or not rises:
        return sizings
    linked = {app for edge in each[0].edges for app in (edge.producer, edge.consumer)}
    of_app = {signals.apps[0].app: signals for signals in each}
    return [
        _following(sizing, size(_faster(of_app[sizing.operator.app])))
        if not sizing.changes and sizing.need is not None and sizing.operator.app in linked
        else sizing
        for sizing in sizings
    ]


def _faster(signals: Signals) -> Signals:
    (app,) = signals.apps
    mean, recent = (
        None if rate is None else AHEAD * rate for rate in (app.arrival_rows_per_s, app.arrival_recent_rows_per_s)
    )
    return replace(signals, apps=(replace(app, arrival_rows_per_s=mean, arrival_recent_rows_per_s=recent),))


def _following(sizing: Sizing, ahead: Sequence[Sizing]) -> Sizing:
    """Return what an app would get at a higher rate, if that is more slots; else what it gets at the present one."""
    now = sizing.operator.now or 0
    if len(ahead) != 1 or ahead[0].target <= now:
        return sizing
    details = {
        "app": sizing.operator.app,
        "rate": number(sizing.need or 0.0),
        "now": count(now, "slot"),
        "then": count(ahead[0].target, "slot"),
        "more": number(round(100 * (AHEAD - 1))),
    }
    sentence = message(Reason.WITH_OTHERS, details)
    predicted = dict(ahead[0].predicted)
    if "utilisation_ratio" in predicted:
        predicted["utilisation_ratio"] /= AHEAD
    return replace(ahead[0], reason=Reason.WITH_OTHERS.value, sentence=sentence, need=sizing.need, predicted=predicted)
