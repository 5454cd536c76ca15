"""Keep the apps of a pipeline within the slots that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from millrace.model.decision import SLOTS_WANTED
from millrace.model.deployment import Deployment
from millrace.model.signals import Signals
from millrace.optimizers.conttune.budget import Claim, share_budget, sustained_share
from millrace.optimizers.conttune.messages import Reason, message, number
from millrace.optimizers.conttune.sizing import Sizing


def within_budget(sizings: Sequence[Sizing], signals: Signals, current: Deployment) -> Sequence[Sizing]:
    """Return the sizings with slots that fit the pipeline's budget; unchanged if they fit.

    If they do not, the slots go to the apps that limit the pipeline (:func:`.budget.share_budget`). If all can sustain
    what arrives, what is left goes to those that want more, for a backlog or for room. An app whose need is unknown
    keeps its slots as long as those that are known have enough for their minimum.

    Args:
        sizings: One per app that was measured.
        signals: The pipeline's.
        current: The Deployment; an app that was not measured keeps its slots.
    """
    of_apps = {s.operator.app: s for s in sizings if s.operator.id is None}
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
    return [_cut(s, shares.get(s.operator.app, s.target), share, signals) for s in sizings]


def _claims(sizings: Mapping[str, Sizing], signals: Signals, left: int) -> Sequence[Claim]:
    lowest = {name: signals.bounds_of(name).min_slots for name in sizings}
    kept = {name: s.operator.now or 0 for name, s in sizings.items() if s.need is None}
    lows = lowest | kept
    if sum(lows.values()) > left:
        lows = lowest
    return [
        Claim(name, s.need or 0.0, s.throughput, lows[name], max(s.target, lows[name]), signals.bounds_of(name).step)
        for name, s in sizings.items()
    ]


def _cut(sizing: Sizing, slots: int, share: float, signals: Signals) -> Sizing:
    """Return a sizing with fewer slots, and why; the same if it gets what it wants."""
    if slots >= sizing.target:
        return sizing
    details = {
        "app": sizing.operator.app,
        "wanted": number(sizing.target),
        "then": number(slots),
        "budget": number(signals.budget),
        "key": signals.budget_key,
        "share": number(round(100 * share)),
    }
    return replace(
        sizing,
        target=slots,
        reason=Reason.BUDGET.value,
        sentence=message(Reason.BUDGET, details),
        predicted={"throughput_rows_per_s": sizing.throughput(slots), SLOTS_WANTED: float(sizing.target)},
        contingencies=(),
    )
