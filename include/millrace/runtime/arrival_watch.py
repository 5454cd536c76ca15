"""Arrivals and the duration of running batches, as the listener sees them between two evaluations."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

MOST_EVENTS = 1000
"""Arrivals kept if nothing takes them."""


@dataclass(frozen=True)
class Arrival:
    """Rows found to have arrived.

    Attributes:
        at_s: When they were found, seconds on the monotonic clock.
        rows: Number of rows, > 0.
    """

    at_s: float
    rows: int


class ArrivalWatch:
    """Passes what the listener sees to the agent, from thread to thread."""

    def __init__(self) -> None:
        self._armed = False
        self._ends: dict[str, int] = {}
        self._began: dict[str, float] = {}
        self._arrivals: deque[Arrival] = deque(maxlen=MOST_EVENTS)
        self._mutex = threading.Lock()

    @property
    def armed(self) -> bool:
        """Whether the agent acts on arrivals. Only then does the listener check the sources once per second."""
        return self._armed

    def arm(self, armed: bool) -> None:
        """Begin or stop to act on arrivals; what came before the begin is no arrival."""
        with self._mutex:
            if armed and not self._armed:  # until now, the sources were checked at the end of batches only
                self._ends.clear()
                self._arrivals.clear()
            self._armed = armed

    def reached(self, run: str, end: int | None, at_s: float) -> None:
        """Record the total rows ever committed to a run's sources; None interrupts the count."""
        with self._mutex:
            before = self._ends.pop(run, None)
            if end is None:
                return
            self._ends[run] = end
            if before is not None and end > before:
                self._arrivals.append(Arrival(at_s, end - before))

    def runs(self, run: str, since_s: float | None) -> None:
        """Record since when a run's batch has been running, seconds on the monotonic clock; None if none runs."""
        with self._mutex:
            if since_s is None:
                self._began.pop(run, None)
            else:
                self._began[run] = since_s

    def forget(self, run: str) -> None:
        """Forget a run that has ended."""
        self.runs(run, None)
        with self._mutex:
            self._ends.pop(run, None)

    def take(self) -> list[Arrival]:
        """Return the arrivals since the last call, oldest first."""
        with self._mutex:
            taken = list(self._arrivals)
            self._arrivals.clear()
            return taken

    def longest_batch_s(self, now_s: float) -> float:
        """Return how long the oldest running batch has been running, seconds; 0 without one."""
        with self._mutex:
            return max((now_s - since for since in self._began.values()), default=0.0)


class Excess:
    """Rows that arrived beyond a rate. It is a cumulative sum, so no window can be too short or too long.

    Sources commit in chunks, so a chunk counts over the time since the previous one: a chunk after a pause is no rise.

    Args:
        rate: Rows per second, >= 0.
        now_s: Current time, seconds on the monotonic clock.
    """

    def __init__(self, rate: float, now_s: float) -> None:
        self.rate, self.rows = rate, 0.0
        self._began_s = self._last_s = now_s
        self._arrived, self._pieces = 0, 0

    def add(self, arrival: Arrival) -> None:
        """Count an arrival."""
        spent_s = max(0.0, arrival.at_s - self._last_s)
        self._last_s = arrival.at_s
        self.rows += arrival.rows - self.rate * spent_s
        self._arrived, self._pieces = self._arrived + arrival.rows, self._pieces + 1
        if self.rows <= 0:
            self.rows, self._began_s, self._arrived, self._pieces = 0.0, arrival.at_s, 0, 0

    def exceeds(self, for_s: float) -> bool:
        """Return whether more than ``for_s`` seconds' worth of the rate has piled up, in more than one chunk."""
        return self._pieces > 1 and self.rows > self.rate * for_s

    @property
    def arrival_rows_per_s(self) -> float:
        """Arrival rate since it exceeded ``rate``, rows per second; 0 if it does not."""
        spent_s = self._last_s - self._began_s
        return self._arrived / spent_s if spent_s > 0 else 0.0
