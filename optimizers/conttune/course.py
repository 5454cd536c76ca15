"""Arrival over time, in seconds, and how long it has stayed below a rate.

A stay below a rate starts when less arrives and ends when more does. The length of earlier stays shows how long the
present one may last. Of n stays that lasted longer than the present one so far, the mean of their remaining time is
expected, with a relative error e: e^2 = (1 + sum of squared relative deviations) / (n + 1), as if one more stay was
known whose length is as uncertain as the time of a random event. If no stay was as long, the present stay is expected
to last as long again as it has lasted, with an error of 1. A stay whose start was not seen is expected to last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from statistics import fmean
from typing import NamedTuple

MOST_SPANS = 240
SAME = 0.03
"""Rates that differ by less belong to one span."""
RECENT_STAYS = 12


class Span(NamedTuple):
    """Consecutive seconds in which about the same rate arrived, rows per second."""

    rate: float
    seconds: float


class Expected(NamedTuple):
    """Expected rest of a stay, seconds, and its relative error, >= 0."""

    seconds: float
    error: float

    @property
    def discounted_s(self) -> float:
        """Seconds to count on."""
        return self.seconds / (1 + self.error)


@dataclass(frozen=True)
class Course:
    """Arrival, newest last.

    Attributes:
        spans: Rates and how long they lasted.
        seen: End of the last period (UTC); None before any.
    """

    spans: tuple[Span, ...] = ()
    seen: datetime | None = None

    def with_period(self, rate: float, since: datetime, until: datetime) -> Course:
        """Return the course after one more period; of a period that overlaps the last one, only the new part counts."""
        length = (until - since).total_seconds()
        new = length if self.seen is None else min(length, (until - self.seen).total_seconds())
        if new <= 0:
            return Course(self.spans, until)
        last = self.spans[-1] if self.spans else None
        if last is None or abs(rate - last.rate) > SAME * max(rate, last.rate):
            return Course((*self.spans, Span(rate, new))[-MOST_SPANS:], until)
        seconds = last.seconds + new
        mean = (last.rate * last.seconds + rate * new) / seconds
        return Course((*self.spans[:-1], Span(mean, seconds)), until)

    def stays(self, rate: float) -> list[Sequence[Span]]:
        """Return the spans of each stay at or below a rate, the present one last; empty if it is above now."""
        runs = groupby(self.spans, key=lambda span: span.rate <= rate)
        stays: list[Sequence[Span]] = [list(spans) for low, spans in runs if low]
        return stays if self.spans and self.spans[-1].rate <= rate else [*stays, []]

    def expected(self, rate: float) -> Expected:
        """Return how long no more than a rate is expected to arrive; infinite if no more has ever arrived."""
        if all(span.rate <= rate for span in self.spans):
            return Expected(math.inf, 0.0)
        *former, present = (sum(span.seconds for span in stay) for stay in self.stays(rate))
        left = [seconds - present for seconds in former[-RECENT_STAYS:] if seconds > present]
        if not left:
            return Expected(present, 1.0)
        mean = fmean(left)
        spread = sum((seconds / mean - 1) ** 2 for seconds in left)
        return Expected(mean, math.sqrt((1 + spread) / (len(left) + 1)))
