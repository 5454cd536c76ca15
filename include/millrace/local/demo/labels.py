"""Times and slots as readable text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from millrace.model.decision import Decision
from millrace.model.deployment import SLOTS


def clock(seconds: float) -> str:
    """Return seconds of a run as ``m:ss``."""
    whole = max(0, int(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


def hour_text(hour: float) -> str:
    """Return an hour of the day, [0, 24), as ``hh:mm``."""
    return f"{int(hour):02d}:{int(hour % 1 * 60):02d}"


def slots_of(decision: Decision, app: str) -> tuple[int | None, int | None]:
    """Return an app's slots before a Decision and the slots decided on.

    The slots before a change are the slots that it replaces. The measured slots may be older, because an evaluation
    need not wait until a scale-up is complete.
    """
    change = next((c for c in decision.changes if c.app == app and c.field == SLOTS), None)
    if change is not None:
        return int(change.before), int(change.value)
    measured = [a.slots for a in decision.signals.apps if a.app == app] if decision.signals else []
    before = measured[0] if measured else None
    decided = decision.target.apps.get(app) if decision.target else None
    return before, decided.slots if decided else before


def sizes_of(decision: Decision, apps: Iterable[str]) -> Mapping[str, tuple[int | None, int | None]]:
    """Return the slots of each app before a Decision and the slots decided on, as :func:`slots_of` does."""
    return {app: slots_of(decision, app) for app in apps}


def sizes_text(sizes: Mapping[str, tuple[int | None, int | None]]) -> str:
    """Return the slots of each app before and after for a table's cell; with the app's name if there are several."""
    return ", ".join(f"{app} " * (len(sizes) > 1) + slots_text(*size) for app, size in sizes.items())


def slots_text(before: int | None, after: int | None) -> str:
    """Return slots before and after for a table's cell."""
    if after is None:
        return ""
    return str(after) if before in (None, after) else f"{before} → {after}"
