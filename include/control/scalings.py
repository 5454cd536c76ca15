"""What the last change of each app's slots was to bring, and what it brought."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from include.control.guards import Scaling
from include.model.decision import Decision, Reconfiguration

ABILITY = "processing_ability_rows_per_s"
"""The key under which a Decision predicts and a Reconfiguration achieves."""


def last_scalings(history: Iterable[Reconfiguration], find: Callable[[str], Decision | None]) -> tuple[Scaling, ...]:
    """Return the last decided change of each app, where it has been verified.

    Args:
        history: Reconfigurations, newest first.
        find: Finds the Decision behind one by its id.
    """
    newest: dict[str, Reconfiguration] = {}
    for change in history:
        if change.decision_id is not None:
            newest.setdefault(change.app, change)
    found = (_scaling(change, find(change.decision_id or "")) for change in newest.values())
    return tuple(s for s in found if s is not None)


def _scaling(change: Reconfiguration, decision: Decision | None) -> Scaling | None:
    if decision is None or decision.target is None or change.ended is None or ABILITY not in change.achieved:
        return None
    signals = decision.signals
    app = next((a for a in signals.apps if a.app == change.app), None) if signals else None
    step = next(
        (c for p in decision.proposals for c in p.changes if (c.app, c.field) == (change.app, "slots")),
        None,
    )
    if app is None or app.capacity is None or step is None or ABILITY not in decision.predicted:
        return None
    return Scaling(
        app=change.app,
        before=int(step.before),
        after=decision.target.apps[change.app].slots,
        ended=change.ended,
        capacity_before=app.capacity.rows_per_s,
        capacity_predicted=decision.predicted[ABILITY],
        capacity_achieved=change.achieved[ABILITY],
    )
