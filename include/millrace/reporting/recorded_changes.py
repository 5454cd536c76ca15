"""History of a replayed pipeline: recorded restarts while it follows the recording, its own ones otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median

from millrace.model.decision import RESTART, Outcome, Reconfiguration
from millrace.model.deployment import Deployment

DOWNTIME_S = 6.0
"""Downtime of a restart if none was recorded: the middle of what unchanged scripts take (T2)."""

TAKES_S = 15.0
"""Duration of a restart if none was recorded; the successor starts before the predecessor stops."""


class RecordedChanges:
    """Reconfigurations as the replay knows them.

    Args:
        recorded: The pipeline's Reconfigurations, in any order.
        downtime_s: Downtime of a modelled restart; by default the median of the recorded ones.
    """

    def __init__(self, recorded: Sequence[Reconfiguration], downtime_s: float | None = None) -> None:
        self._recorded = sorted(recorded, key=lambda c: c.started, reverse=True)
        restarts = [c for c in recorded if c.outcome is Outcome.READY and c.from_version is not None]
        downtimes = [c.downtime_s for c in restarts if c.downtime_s is not None]
        takes = [(c.ended - c.started).total_seconds() for c in restarts if c.ended]
        self.downtime_s = downtime_s if downtime_s is not None else median(downtimes) if downtimes else DOWNTIME_S
        self._takes = timedelta(seconds=max(self.downtime_s, median(takes) if takes else TAKES_S))
        self._following = True
        self._since: datetime | None = None
        self._own: list[Reconfiguration] = []  # newest first

    def known(self, now: datetime) -> tuple[Reconfiguration, ...]:
        """Return the changes that had started before a time, newest first, each as it was known then."""
        since = self._since
        recorded = [c for c in self._recorded if c.started < now and (since is None or c.started >= since)]
        own = [c for c in self._own if c.started < now]
        return (*(_as_of(c, now) for c in recorded), *own) if self._following else tuple(own)

    def leave(self, now: datetime) -> None:
        """Stop following the recording: its later changes do not happen to the replay."""
        self._own, self._following = list(self.known(now)), False

    def follow(self, now: datetime) -> None:
        """Follow the recording again, from now on."""
        self._following, self._since = True, now

    def add(self, changes: Sequence[Reconfiguration]) -> None:
        """Add changes that the replay itself made."""
        self._own = [*changes, *self._own]

    def restarts(
        self, before: Deployment, after: Deployment, decision_id: str, now: datetime
    ) -> tuple[Reconfiguration, ...]:
        """Return the restarts from one Deployment to another, one entry per app that differs."""
        return tuple(
            Reconfiguration(
                pipeline=after.pipeline,
                app=name,
                decision_id=decision_id,
                tier=RESTART,
                from_version=before.version,
                to_version=after.version,
                generation=None,
                started=now,
                ended=now + self._takes,
                downtime_s=self.downtime_s,
                outcome=Outcome.READY,
            )
            for name, app in sorted(after.apps.items())
            if app != before.apps.get(name)
        )

    def last_restart(self, app: str, version: int) -> Reconfiguration | None:
        """Return an app's last restart of the replay up to a version; None if there was none."""
        ended = (c for c in self._own if c.app == app and c.ended is not None)
        return next((c for c in ended if c.to_version is not None and c.to_version <= version), None)


def _as_of(change: Reconfiguration, now: datetime) -> Reconfiguration:
    if change.ended is None or change.ended <= now:
        return change
    return replace(change, ended=None, downtime_s=None, outcome=Outcome.OPEN, error=None, achieved={})
