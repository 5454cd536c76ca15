"""The apps of a pipeline as a person sees them: what arrives, what waits, and which others each feeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
        feeds: The apps that read its output, each with the rows per second that it gets.
    """

    name: str
    slots: int
    arrival: float | None = None
    sustainable: float | None = None
    waiting: int | None = None
    feeds: tuple[str, ...] = ()

    def cells(self) -> list[str]:
        """Return the app as a row of text: name, slots, arrival, sustainable rate, rows waiting, apps that it feeds."""
        figures = [self.arrival, self.sustainable, self.waiting]
        shown = ["unknown" if value is None else f"{value:,.0f}" for value in figures]
        return [self.name, str(self.slots), *shown, ", ".join(self.feeds) or "no other app"]


HEADINGS = ("app", "slots", "rows/s arrive", "rows/s sustainable", "rows wait", "feeds")
"""Headings of :meth:`AppView.cells`."""


def app_views(current: Deployment, signals: Signals | None) -> Sequence[AppView]:
    """Return the apps of a pipeline of several, those that feed others first; none if it has only one.

    Args:
        current: Its newest Deployment.
        signals: What its last evaluation measured; None if there is none.
    """
    if len(current.apps) < 2:
        return []
    edges = signals.edges if signals else ()
    fed = {edge.consumer for edge in edges}
    views = []
    for name, app in current.apps.items():
        seen = signals.app(name) if signals else None
        feeds = tuple(
            edge.consumer + ("" if edge.rows_per_s is None else f" ({edge.rows_per_s:,.0f} rows/s)")
            for edge in edges
            if edge.producer == name
        )
        if signals is None or seen is None:
            views.append(AppView(name, app.slots, feeds=feeds))
        else:
            sustainable = seen.sustainable(signals.objective)
            views.append(AppView(name, app.slots, seen.arrival_rows_per_s, sustainable, seen.backlog_rows, feeds))
    return sorted(views, key=lambda view: (view.name in fed, not view.feeds))
