"""Scale up apps that feed each other in one step, also those that would follow a moment later.

If the rate at the first app rises, each app exceeds its throughput at another moment of the rise. One change for each
of them is what sizing a whole graph should avoid ([ContTune], Section 1: one reconfiguration for all operators). This
concerns steps, and plans for more arrival: a line of an app's plan contains the slots of the apps that it feeds.

Reference: own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from millrace.model.contingency import Contingency
from millrace.model.signals import Signals
from millrace.optimizers.conttune.messages import Reason, count, format_number, message
from millrace.optimizers.conttune.ratios import Ratios
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


def planned_together(
    sizings: Sequence[Sizing],
    each: Sequence[Signals],
    ratios: Ratios,
    size: Callable[[Signals], Sequence[Sizing]],
) -> Sequence[Sizing]:
    """Return sizings whose plans for a higher rate contain the slots of the apps that get these rows next.

    A line counts up to the rate of the line after it, so the other apps get what they need at that rate.

    Args:
        sizings: The sizings of all apps.
        each: Each app's signals, those that feed others first.
        ratios: Learned rows that an app receives per row that another takes in.
        size: Returns the sizings of one app for its signals.
    """
    if len(each) < 2 or not any(line.above_rows_per_s for s in sizings for line in s.contingencies):
        return sizings
    of_app, targets = {signals.apps[0].app: signals for signals in each}, {s.operator.app: s.target for s in sizings}

    def others(line: Contingency, upper: float, need: float | None) -> Mapping[str, int]:
        if line.above_rows_per_s is None or need is None:
            return {}
        more, found = max(0.0, AHEAD * line.above_rows_per_s - need, upper - need), dict[str, int]()
        for app, rows in _received(line.app, each, ratios).items():
            now = of_app[app].apps[0].arrival_rows_per_s
            ahead = () if now is None else size(_at(of_app[app], now + rows * more))
            if len(ahead) == 1 and ahead[0].target > targets.get(app, ahead[0].target):
                found[app] = ahead[0].target
        return found

    def whole(lines: Sequence[Contingency], need: float | None) -> tuple[Contingency, ...]:
        uppers = [line.above_rows_per_s or 0.0 for line in lines[1:]]
        return tuple(replace(a, others=others(a, b, need)) for a, b in zip(lines, [*uppers, 0.0], strict=True))

    return [replace(s, contingencies=whole(s.contingencies, s.need)) if s.contingencies else s for s in sizings]


def _received(app: str, each: Sequence[Signals], ratios: Ratios) -> Mapping[str, float]:
    """Return the rows that other apps get per row that an app takes in, directly or through others, by app."""
    received = {app: 1.0}
    for name in (signals.apps[0].app for signals in each):
        into = [(edge.producer, name) for edge in each[0].edges if edge.consumer == name and edge.producer in received]
        if name != app and any(edge in ratios for edge in into):
            received[name] = sum(ratios[edge].mean * received[edge[0]] for edge in into if edge in ratios)
    return {name: rows for name, rows in received.items() if name != app}


def _faster(signals: Signals) -> Signals:
    (app,) = signals.apps
    mean, recent = (
        None if rate is None else AHEAD * rate for rate in (app.arrival_rows_per_s, app.arrival_recent_rows_per_s)
    )
    return replace(signals, apps=(replace(app, arrival_rows_per_s=mean, arrival_recent_rows_per_s=recent),))


def _at(signals: Signals, rate: float) -> Signals:
    """Return signals of an app with another rate, rows per second."""
    (app,) = signals.apps
    return replace(signals, apps=(replace(app, arrival_rows_per_s=rate, arrival_recent_rows_per_s=rate),))


def _following(sizing: Sizing, ahead: Sequence[Sizing]) -> Sizing:
    """Return what an app would get at a higher rate, if that is more slots; else what it gets at the present one."""
    now = sizing.operator.now or 0
    if len(ahead) != 1 or ahead[0].target <= now:
        return sizing
    details = {
        "app": sizing.operator.app,
        "rate": format_number(sizing.need or 0.0),
        "now": count(now, "slot"),
        "then": count(ahead[0].target, "slot"),
        "more": format_number(round(100 * (AHEAD - 1))),
    }
    sentence = message(Reason.WITH_OTHERS, details)
    predicted = dict(ahead[0].predicted)
    if "utilisation_ratio" in predicted:
        predicted["utilisation_ratio"] /= AHEAD
    return replace(ahead[0], reason=Reason.WITH_OTHERS.value, sentence=sentence, need=sizing.need, predicted=predicted)
