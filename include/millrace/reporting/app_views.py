"""The apps of a pipeline as a person sees them: what arrives, what waits, and which others each feeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from millrace.model.deployment import Deployment
from millrace.model.signals import Signals


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
    """

    name: str
    slots: int
    arrival: float | None = None
    sustainable: float | None = None
    waiting: int | None = None
    feeds: Mapping[str, float | None] = field(default_factory=dict)
    depth: int = 0

    def cells(self) -> list[str]:
        """Return the app as a row of text: name, slots, arrival, sustainable rate, rows waiting, apps that it feeds."""
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
    return views({name: app.slots for name, app in current.apps.items()}, read(current.pipeline))


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
