"""How long requested executors take to register, learned from those that did.

A cluster that starts a node first may need minutes. Until then, executors are pending, not refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable

from millrace.model.errors import MillraceError

LOG = logging.getLogger(__name__)
SHORT_S = 30.0
"""Time in which a cluster with room provides or replaces an executor; above 15 s on a busy machine."""
MARGIN = 1.5
"""How much longer than the slowest known executor a new one may take before it counts as refused."""
MOST_S = 1200.0
"""Longest wait: an executor that took longer, perhaps over a night, says nothing of the next one."""

Former = Callable[[], Iterable[float]]
"""Returns the lead times of the app's earlier executors, seconds."""


class LeadTimes:
    """The lead times of one driver's executors: from their request until they register.

    Attributes:
        slowest_s: The longest one known so far, seconds; 0 if none is known.

    Args:
        former: Called once, when executors are late for the first time.
    """

    def __init__(self, former: Former = tuple) -> None:
        self._former: Former | None = former
        self.slowest_s = 0.0
        self._known: set[str] | None = None
        self._open: list[float] = []
        self._found: dict[str, float] = {}

    def update(self, registered: Collection[str], wanted: int, now_s: float) -> None:
        """Note who has registered, and how many executors are wanted.

        Args:
            registered: Ids of the registered executors.
            wanted: Number of executors that the app requests.
            now_s: Time on a monotonic clock, seconds.
        """
        for id in sorted(set(registered) - (self._known or set()), key=int):
            if self._open and self._known is not None:
                self._found[id] = now_s - self._open.pop(0)
                self.slowest_s = max(self.slowest_s, _counted(self._found[id]))
        self._known = set(registered)
        missing = max(0, wanted - len(registered))
        # a request that was withdrawn was the newest; an executor that was lost is replaced from now on
        self._open = self._open[:missing] + [now_s] * (missing - len(self._open))

    def lead_s(self, executor: str) -> float | None:
        """Return how long an executor took to register, seconds; None if it was there before the agent."""
        return self._found.get(executor)

    def patience_s(self) -> float:
        """Return how long a requested executor may take before it counts as refused, seconds."""
        if self._former is not None:
            try:
                self.slowest_s = max([self.slowest_s, *map(_counted, self._former())])
            except MillraceError as error:
                LOG.debug("Earlier lead times cannot be read: %s", error)
            self._former = None
        return max(SHORT_S, MARGIN * self.slowest_s)


def _counted(lead_s: float) -> float:
    return lead_s if lead_s <= MOST_S else 0.0
