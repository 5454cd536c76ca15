"""Cost and result of a run: core-seconds of executors, lag, latency, and time in which nothing ran."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from millrace.local.demo.timeline import Timeline

GRID_S = 0.25
HICCUP_S = 0.5

Interval = tuple[float, float]
"""Start and end, seconds of one clock."""


@dataclass(frozen=True)
class Cores:
    """Cores held over a time.

    Attributes:
        begin: Start, seconds of the clock.
        end: End; None if it is after every time of interest.
        cores: Number of cores.
    """

    begin: float
    end: float | None
    cores: int


def core_seconds(held: Iterable[Cores], begin: float, end: float) -> float:
    """Return the core-seconds held between two times."""
    return sum(c.cores * max(0.0, min(end, end if c.end is None else c.end) - max(begin, c.begin)) for c in held)


def behind_s(timeline: Timeline, until_s: float, max_lag_s: float) -> float:
    """Return the seconds in which a row had waited longer than the lag goal."""
    return float((timeline.oldest_waiting_s(_grid(until_s)) > max_lag_s).sum() * GRID_S)


def longest_lag_s(timeline: Timeline, until_s: float) -> float:
    """Return the longest time that a row waited."""
    return float(timeline.oldest_waiting_s(_grid(until_s)).max())


def latency_s(timeline: Timeline, quantile: float) -> float:
    """Return a quantile, by rows, of the time from a row's commit to the end of the batch that processed it."""
    at = np.searchsorted(timeline.batch_rows, timeline.arrival_rows)
    done = at < timeline.batch_s.size
    rows = np.diff(timeline.arrival_rows, prepend=0.0)[done]
    waited = timeline.batch_s[at[done]] - timeline.arrival_s[done]
    order = np.argsort(waited)
    share = np.cumsum(rows[order]) / rows.sum()
    return float(waited[order][np.searchsorted(share, quantile)])


def gaps_s(timeline: Timeline, batches: Sequence[Interval]) -> list[float]:
    """Return how long input waited between consecutive batches, for each pair between which it did.

    Args:
        timeline: The run.
        batches: Start and end of its batches, in seconds of the run, in order.
    """
    gaps = []
    for (_, end), (begin, _) in pairwise(batches):
        waiting = float(timeline.processed(np.array([end]))[0])
        at = int(np.searchsorted(timeline.arrival_rows, waiting, side="right"))
        if at < timeline.arrival_s.size:
            gaps.append(max(0.0, begin - max(end, float(timeline.arrival_s[at]))))
    return gaps


def downtime_s(gaps: Iterable[float], usual_s: float) -> float:
    """Return the time in which nothing ran while input waited, beyond what a run without changes has.

    Args:
        gaps: See :func:`gaps_s`.
        usual_s: The longest gap of a run without changes; gaps longer by :data:`HICCUP_S` are not chance.
    """
    return sum(gap - usual_s for gap in gaps if gap > usual_s + HICCUP_S)


def around(batches: Sequence[Interval], change: Interval) -> tuple[float, float] | None:
    """Return the duration of the longest batch around a change, and of the batch before; None if either is missing.

    Args:
        batches: Start and end of each batch, in order.
        change: Start and end of the change, seconds of the same clock.
    """
    before = [end - begin for begin, end in batches if end <= change[0]]
    beside = [end - begin for begin, end in batches if end > change[0] and begin < change[1]]
    return (max(beside), before[-1]) if before and beside else None


def _grid(until_s: float) -> np.ndarray:
    return np.arange(0.0, max(until_s, GRID_S), GRID_S)
