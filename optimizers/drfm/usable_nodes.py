"""The nodes to which a plan may assign streams: those that are not down, as far as the pipeline's slots allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millrace.model.deployment import Deployment
from millrace.model.signals import OWN_BUDGET, Signals


@dataclass(frozen=True)
class UsableNodes:
    """Nodes of a plan, by number or name.

    Attributes:
        up: Numbers of those that may get streams, ascending.
        running: Numbers of those of them that run even without streams.
        down: Names of those that must get no stream.
        withheld: Names of those of a fleet for which the budget leaves no slots.
    """

    up: tuple[int, ...] = ()
    running: tuple[int, ...] = ()
    down: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()


def usable_nodes(names: Sequence[str], signals: Signals, current: Deployment) -> UsableNodes:
    """Return which nodes a plan may use.

    Guards refuse a Deployment with more slots than the budget, unless it has no more than the present one. A plan with
    a node that exceeds them would be refused in every evaluation, and its other moves with it. So nodes that run come
    first, then others as long as there are slots for them. If other pipelines need slots of a common quota, nodes above
    the pipeline's share are given back, unless no other node is up.

    Args:
        names: Names of the ingest tables of a feed, which take no slots, or of the nodes of a fleet.
        signals: The nodes that are down, and the budget.
        current: The Deployment; the nodes of a fleet are apps of it.
    """
    counts = signals.streams
    down = tuple(name for name in names if counts is not None and name in counts.down)
    up = [number for number, name in enumerate(names) if name not in down]
    if counts is None or not counts.fleet:
        return UsableNodes(tuple(up), down=down)
    standby = {name: app.slots for name, app in current.apps.items() if app.standby}
    running = tuple(number for number in up if names[number] in current.apps and names[number] not in standby)
    if signals.budget is None:
        return UsableNodes(tuple(up), running, down)
    always = sum(app.slots for name, app in current.apps.items() if name not in standby)
    slots = {number: standby.get(names[number], 0) for number in up}
    order = sorted(up, key=lambda number: (names[number] not in current.entered, number))
    held = max(signals.budget, current.slots)
    kept = _first(order, slots, (held if signals.budget_key == OWN_BUDGET else signals.budget) - always)
    kept = kept or _first(order, slots, held - always)
    return UsableNodes(kept, running, down, tuple(names[number] for number in up if number not in kept))


def _first(order: Sequence[int], slots: Mapping[int, int], left: int) -> tuple[int, ...]:
    """Return the nodes that get slots as long as there are any, ascending; some need none."""
    kept = []
    for number in order:
        if not slots[number] or slots[number] <= left:
            kept.append(number)
            left -= slots[number]
    return tuple(sorted(kept))
