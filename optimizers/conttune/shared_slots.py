"""Keep the apps of a pipeline within the slots that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from millrace.model.decision import SLOTS_WANTED
from millrace.model.deployment import Deployment
from millrace.model.signals import Signals
from millrace.optimizers.conttune.budget import Claim, share_budget, sustained_share
from millrace.optimizers.conttune.messages import Reason, format_number, message
from millrace.optimizers.conttune.sizing import Sizing


def within_budget(sizings: Sequence[Sizing], signals: Signals, current: Deployment) -> Sequence[Sizing]:
    """Return the sizings with slots that fit the pipeline's budget; unchanged if they fit.

    If they do not, the slots go to the apps that limit the pipeline (:func:`.budget.share_budget`). If all can sustain
    what arrives, what is left goes to those that want more, for a backlog or for room. An app whose need is unknown
    keeps the slots that it was last given as long as those that are known have enough for their minimum.

    Args:
        sizings: One per app that was measured.
        signals: The pipeline's.
        current: The Deployment; an app that was not measured keeps its slots.
    """
    of_apps = {s.operator.app: _as_given(s, current) for s in sizings if s.operator.id is None}
    unmeasured = sum(app.slots for name, app in current.apps.items() if name not in of_apps)
    if signals.budget is None or unmeasured + sum(s.target for s in of_apps.values()) <= signals.budget:
        return sizings
    claims = _claims(of_apps, signals, signals.budget - unmeasured)
    left = max(signals.budget - unmeasured, sum(claim.low for claim in claims))
    shares = share_budget(claims, left)
    share = sustained_share(claims, shares)
    if share == 1.0:
        wanted = [replace(c, need=max(0.0, c.throughput(c.high)), low=shares[c.app]) for c in claims]
        shares = share_budget(wanted, left)
    known = all(sizing.need is not None for sizing in of_apps.values())
    return [
        _cut(of_apps[s.operator.app], shares[s.operator.app], share if known else None, signals)
        if s.operator.id is None
        else s
        for s in sizings
    ]


def _as_given(sizing: Sizing, current: Deployment) -> Sizing:
    """Return a sizing that keeps an app's slots with those that it was last given: they may not have come yet."""
    app = current.apps.get(sizing.operator.app)
    if app is None or sizing.changes:
        return sizing
    return replace(sizing, operator=replace(sizing.operator, now=app.slots), target=app.slots)


def _claims(sizings: Mapping[str, Sizing], signals: Signals, left: int) -> Sequence[Claim]:
    lowest = {name: signals.bounds_of(name).min_slots for name in sizings}
    kept = {name: s.operator.now or 0 for name, s in sizings.items() if s.need is None}
    lows = lowest | kept
    if sum(lows.values()) > left:
        lows = lowest
    return [
        Claim(
            name,
            s.need or 0.0,
            s.throughput if s.throughput(s.target) > 0 else float,  # unknown: in proportion to the slots
            lows[name],
            max(s.target, lows[name]),
            signals.bounds_of(name).step,
        )
        for name, s in sizings.items()
    ]


def _cut(sizing: Sizing, slots: int, share: float | None, signals: Signals) -> Sizing:
    """Return a sizing with fewer slots, and why; the same if it gets what it wants.

    Args:
        sizing: The app's.
        slots: Slots that it gets.
        share: Share of what arrives that the pipeline sustains then; None if that is not known.
        signals: The pipeline's.
    """
    if slots >= sizing.target:
        return sizing
    details = {
        "app": sizing.operator.app,
        "wanted": format_number(sizing.target),
        "then": format_number(slots),
        "budget": format_number(signals.budget),
        "key": signals.budget_key,
    }
    if share is not None:
        details["share"] = format_number(round(100 * share))
    reason = Reason.BUDGET_UNMEASURED if share is None else Reason.BUDGET
    return replace(
        sizing,
        target=slots,
        reason=reason.value,
        sentence=message(reason, details),
        predicted={"throughput_rows_per_s": sizing.throughput(slots), SLOTS_WANTED: float(sizing.target)},
        contingencies=(),
    )
