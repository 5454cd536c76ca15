"""Bursts: many rows at once, again and again, each over before a step for it could help.

A period with a burst has a rate of its own. A step up for it comes when the burst is over, and a step down when the
next one ends. So bursts that repeat are planned for as a whole: the slots have to keep up with the mean rate, and to
process a burst within the latency goal. They stay the same from one burst to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median, median_low

from millrace.optimizers.conttune.course import Course, Span

RECENT_SPANS = 24
HIGH_SHARE = 1 / 4
"""A burst is above this share of the highest recent rate, everything else below.

The same rows in twice the time, or half as many, are still a burst.
"""
LEAST, RECENT = 2, 5
"""Fewest bursts that repeat, and the number of latest ones that count."""
MOST_OF_TIME = 1 / 3
"""Largest share of the time that bursts may take."""
ALIKE = 2.0
"""Rows of bursts, and times between them, differ by less than this factor from the usual."""


@dataclass(frozen=True)
class Bursts:
    """Bursts that repeat.

    Attributes:
        rows: Rows of the largest recent burst, > 0.
        every_s: Time from one to the next, seconds, > 0.
        rate: Mean rate over bursts and the time between them, rows per second, > 0.
    """

    rows: float
    every_s: float
    rate: float


@dataclass(frozen=True)
class _Burst:
    begin_s: float
    seconds: float
    rows: float


def find_bursts(course: Course, longest_s: float) -> Bursts | None:
    """Return the bursts that repeat up to now; None if there are none.

    Args:
        course: Arrival over time.
        longest_s: Longest burst, seconds: anything longer is worth a step of its own.
    """
    spans = course.spans[-RECENT_SPANS:]
    high = HIGH_SHARE * max((span.rate for span in spans), default=0.0)
    if high <= 0:
        return None
    bursts, now_s = _bursts(spans, high)
    running = bursts[-1:] if spans[-1].rate > high else []
    complete = bursts[: len(bursts) - len(running)][-RECENT:]
    if len(complete) < LEAST or any(b.seconds > longest_s for b in (*complete, *running)):
        return None
    cycles = [b.begin_s - a.begin_s for a, b in pairwise(complete)]
    rows, every_s = median(b.rows for b in complete), median_low(cycles)
    since_last_s = now_s - complete[-1].begin_s
    regular = max(cycles) <= ALIKE * every_s and since_last_s <= ALIKE * every_s
    alike = all(rows / ALIKE <= b.rows <= ALIKE * rows for b in complete) and all(
        b.rows <= ALIKE * rows for b in running
    )
    lasts_s = sum(b.seconds for b in complete[:-1])
    if not regular or not alike or lasts_s > MOST_OF_TIME * sum(cycles):
        return None
    came = _rows_between(spans, complete[0].begin_s, complete[-1].begin_s)
    return Bursts(max(b.rows for b in complete), sum(cycles) / len(cycles), came / sum(cycles))


def _bursts(spans: Sequence[Span], high: float) -> tuple[list[_Burst], float]:
    """Return the bursts above a rate, oldest first, and the end of all spans; times are seconds since the first."""
    found, at_s = [], 0.0
    for is_high, group in groupby(spans, key=lambda s: s.rate > high):
        of_group = list(group)
        seconds = sum(s.seconds for s in of_group)
        if is_high:
            found.append(_Burst(at_s, seconds, sum(s.rate * s.seconds for s in of_group)))
        at_s += seconds
    return found, at_s


def _rows_between(spans: Sequence[Span], begin_s: float, end_s: float) -> float:
    rows = at_s = 0.0
    for span in spans:
        inside = min(end_s, at_s + span.seconds) - max(begin_s, at_s)
        rows += span.rate * max(0.0, inside)
        at_s += span.seconds
    return rows
