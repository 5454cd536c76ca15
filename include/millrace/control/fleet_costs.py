"""What streams of a fleet cost their nodes, in slot-seconds, learned from their recent batches.

Symbols, per batch: x rows, d duration, u useful time of its tasks; on its node, m slots and n(t) batches at a time.

    e = int min(1, m / n(t)) dt   over the batch's duration: its share of the node
    y = max(u, e)                 its cost

Tasks keep slots busy for u seconds. If they are short, the driver still plans and commits, which takes one slot. It
does not take d: triggers of one interval fire together, so batches wait for each other, and d says more of the
neighbours than of the batch. Of n batches on m slots, each gets m / n of a slot.

Per stream, y = f + c x:
    c   slope of u between the batches with few rows and those with many, as medians of both halves, in [0, u / x]
    f   median of y - c x
If rows vary little, all useful time counts as the rows': c = median of u / x. Medians, as a collector's pause, a slow
commit or a busy machine make single batches longer.

Reference: the line through two medians is that of G. Brown, A. Mood: On median tests for linear hypotheses, 1951.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from millrace.control.batch_history import HISTORY
from millrace.control.fleet_rows import Bools, FleetRows, Floats, Ints

NEWEST = 40
"""Newest batches of a stream that count: its rows may become others."""
LEAST = 6
"""Fewest batches that show a slope."""
VARIES = 1.5
"""Rows of the larger batches over those of the smaller ones from which they show a slope."""


@dataclass(frozen=True)
class StreamCosts:
    """What K streams cost a node.

    Attributes:
        stream: Their names, in alphabetical order.
        batch_s: Slot-seconds of each batch, whatever it reads, shape (K,), >= 0.
        row_s: Slot-seconds of each row, shape (K,), >= 0.
        rows: Rows of a usual batch, shape (K,), >= 0.
    """

    stream: tuple[str, ...]
    batch_s: Floats
    row_s: Floats
    rows: Floats

    def of(self, streams: Sequence[str]) -> StreamCosts:
        """Return the costs of other streams; those that are not known get the medians of all."""
        place = {name: index for index, name in enumerate(self.stream)}
        at = np.array([place.get(name, len(place)) for name in streams], dtype=np.intp)
        columns = (np.r_[column, np.median(column)][at] for column in (self.batch_s, self.row_s, self.rows))
        return StreamCosts(tuple(streams), *columns)


def learned_costs(rows: FleetRows, now: datetime) -> StreamCosts | None:
    """Return what a fleet's streams cost, as far as recent batches show it; None without any batch.

    Args:
        rows: Reports of its streams.
        now: The present (UTC).
    """
    ran = rows.take((rows.took_s > 0) & (rows.time >= (now - HISTORY).timestamp()))
    if not len(ran.stream):
        return None
    present, stream = np.unique(ran.stream, return_inverse=True)
    cost, use = np.maximum(ran.useful_s, _shares(ran)), np.flatnonzero(_shows_cost(ran))
    x, u, y = (_newest(stream[use], of[use], len(present)) for of in (ran.rows_in, ran.useful_s, cost))
    row_s = _row_cost(x, np.where(_median(u)[:, None] > 0, u, y))
    batch_s = np.maximum(_median(y - row_s[:, None] * x), 0.0)
    return StreamCosts(tuple(rows.names[at] for at in present), batch_s, row_s, _median(x))


def _shares(ran: FleetRows) -> Floats:
    """Return e of each batch, shape (B,), seconds."""
    share, begin = np.zeros(len(ran.time)), ran.time - ran.took_s
    for node in np.unique(ran.node):
        at = np.flatnonzero(ran.node == node)
        times = np.r_[begin[at], ran.time[at]]
        order = np.argsort(times, kind="stable")
        running = np.cumsum(np.repeat([1, -1], len(at))[order])[:-1]
        pace = np.minimum(1.0, np.median(ran.slots[at]) / np.maximum(running, 1))
        worked = np.r_[0.0, np.cumsum(pace * np.diff(times[order]))]
        share[at] = np.interp(ran.time[at], times[order], worked) - np.interp(begin[at], times[order], worked)
    return share


def _shows_cost(ran: FleetRows) -> Bools:
    """Return which batches show the usual cost, shape (B,): all but the first of each driver, if there are others."""
    warm = ran.follows
    known = np.bincount(ran.stream, weights=warm) > 0
    return np.asarray(warm | ~known[ran.stream])


def _newest(stream: Ints, values: Floats, streams: int) -> Floats:
    """Return the newest values of each stream, shape (K, NEWEST), NaN beyond; sorted by stream, time."""
    last = np.cumsum(np.bincount(stream, minlength=streams)) - 1
    age = last[stream] - np.arange(len(stream))
    young = age < NEWEST
    found = np.full((streams, NEWEST), np.nan)
    found[stream[young], age[young]] = values[young]
    return found


def _row_cost(x: Floats, u: Floats) -> Floats:
    """Return c of each stream, shape (K,), of rows and useful times, shape (K, NEWEST) each."""
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.nan_to_num(_median(np.where(x > 0, u / x, np.nan)))
        large = x > _median(x)[:, None]
        (x0, u0), (x1, u1) = (
            (_median(np.where(half, x, np.nan)), _median(np.where(half, u, np.nan))) for half in (~large, large)
        )
        slope = (u1 - u0) / (x1 - x0)
    shown = (np.isfinite(x).sum(axis=1) >= LEAST) & (x1 >= VARIES * x0)
    return np.clip(np.where(shown, slope, most), 0.0, most)


def _median(values: Floats) -> Floats:
    """Return the median of each row without its NaNs, shape (K,) of (K, n); NaN for rows of NaNs."""
    ordered, count = np.sort(values, axis=1), np.isfinite(values).sum(axis=1)
    low, high = (np.maximum(at, 0) for at in ((count - 1) // 2, count // 2))
    every = np.arange(len(values))
    middle = (ordered[every, low] + ordered[every, np.minimum(high, values.shape[1] - 1)]) / 2
    return np.where(count > 0, middle, np.nan)
