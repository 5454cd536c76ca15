"""The apps of a pipeline as a person sees them: what arrives, what waits, and which others each feeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from millrace.model.deployment import Deployment
from millrace.model.signals import Signals

NOT_NEEDED = "not needed now"
MOST_NAMED = 3
"""Apps that are shown one by one in one line."""


@dataclass(frozen=True)
class AppView:
    """One app.

    Attributes:
        name: Its name.
        slots: Slots that it should have.
        arrival: Rows per second that arrive; None if unknown.
        sustainable: Rows per second that it can sustain; None if unknown.
        waiting: Rows that wait; None if unknown.
        feeds: The apps that read its output, each with the rows per second that it gets; None if unknown.
        depth: Number of apps between it and the first sources, on the longest path.
        needed: False if it runs only while it is needed, and is not needed now.
    """

    name: str
    slots: int
    arrival: float | None = None
    sustainable: float | None = None
    waiting: int | None = None
    feeds: Mapping[str, float | None] = field(default_factory=dict)
    depth: int = 0
    needed: bool = True

    def cells(self) -> list[str]:
        """Return the app as a row of text: name, slots, arrival, sustainable rate, rows waiting, apps that it feeds."""
        if not self.needed:
            return [self.name, NOT_NEEDED, "", "", "", ""]
        figures = [self.arrival, self.sustainable, self.waiting]
        shown = ["unknown" if value is None else f"{value:,.0f}" for value in figures]
        feeds = [name + ("" if rate is None else f" ({rate:,.0f} rows/s)") for name, rate in self.feeds.items()]
        return [self.name, str(self.slots), *shown, ", ".join(feeds) or "no other app"]


HEADINGS = ("app", "slots", "rows/s arrive", "rows/s sustainable", "rows wait", "feeds")
"""Headings of :meth:`AppView.cells`."""


def app_views(current: Deployment, read: Callable[[str], Signals | None]) -> Sequence[AppView]:
    """Return the apps of a pipeline of several, those that feed others first; none if it has only one.

    Args:
        current: Its newest Deployment.
        read: Returns the signals of a pipeline's last evaluation; None if there are none.
    """
    if len(current.apps) < 2:
        return []
    found = views({name: app.slots for name, app in current.apps.items()}, read(current.pipeline))
    idle = not_needed(current)
    return [replace(view, needed=view.name not in idle) for view in found]


def not_needed(current: Deployment) -> tuple[str, ...]:
    """Return the apps of a running pipeline that need no driver now; none if it does not run."""
    return tuple(name for name in current.apps if current.running and current.wanted(name) is None)


def slots_of(current: Deployment) -> str:
    """Return the slots of each app that is needed now, or of all apps of a pipeline that does not run."""
    idle = not_needed(current)
    return in_short([str(app.slots) for name, app in current.apps.items() if name not in idle])


def in_short(each: Sequence[str], names: Sequence[str] = ()) -> str:
    """Return what each app has, with its name; for many apps how many have the same, such as ``12 x running on 2``."""
    if len(each) <= MOST_NAMED:
        return ", ".join(map(" ".join, zip(names, each, strict=True)) if names else each) or "none"
    return ", ".join(f"{count} x {text}" for text, count in Counter(each).items())


def views(slots: Mapping[str, int], signals: Signals | None) -> Sequence[AppView]:
    """Return apps, those that feed others first.

    Args:
        slots: Slots that each should have.
        signals: Measurements of an evaluation; None without any.
    """
    feeds: dict[str, dict[str, float | None]] = {name: {} for name in slots}
    for edge in signals.edges if signals else ():
        if edge.producer in slots and edge.consumer in slots:
            feeds[edge.producer][edge.consumer] = edge.rows_per_s
    depths = _depths(feeds)
    found = []
    for name, wanted in slots.items():
        seen = signals.app(name) if signals else None
        figures: tuple[float | None, float | None, int | None] = (None, None, None)
        if signals and seen:
            figures = seen.arrival_rows_per_s, seen.sustainable(signals.objective), seen.backlog_rows
        found.append(AppView(name, wanted, *figures, feeds[name], depths[name]))
    return sorted(found, key=lambda view: (view.depth, not view.feeds))


def _depths(feeds: Mapping[str, Mapping[str, float | None]]) -> Mapping[str, int]:
    """Return the longest path to each app; a cycle, which the spec refuses, would end after as many apps as exist."""
    depths = dict.fromkeys(feeds, 0)
    for _ in feeds:
        for producer, consumers in feeds.items():
            for consumer in consumers:
                depths[consumer] = min(len(feeds), max(depths[consumer], depths[producer] + 1))
    return depths
