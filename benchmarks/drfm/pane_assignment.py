"""Assign panes to workers, although some panes have several times the rows of others.

For queries without keys: any worker can aggregate any rows, and windows are merged from panes and parts of panes. A
pane is assigned while it arrives, so only earlier panes are known.

mu, sigma: mean and standard deviation of the sizes of recent panes.

Reference: Balkesen, Tatbul, Ozsu, DEBS 2013, Section 4.2. ``least_loaded`` is ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from millrace.model.errors import MillraceError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

RECENT = 64
"""Number of panes that count as recent."""
MOST_PARTS = 16
"""Maximum parts per pane and worker. After a lull mu may be one row, and a burst must not be split into single rows."""


@dataclass(frozen=True)
class Assignment:
    """Panes assigned to workers, each in one or more parts.

    Attributes:
        pane: Pane of each part, ascending, shape (S,).
        worker: Worker of each part, shape (S,).
        rows: Rows of each part, shape (S,).
    """

    pane: Ints
    worker: Ints
    rows: Floats

    def loads(self, workers: int, panes: int, observed: int) -> Floats:
        """Return the rows of each worker in each span of ``observed`` panes, shape (panes // observed, workers)."""
        spans = panes // observed
        of = self.pane // observed
        inside = of < spans
        cell = of[inside] * workers + self.worker[inside]
        rows = np.bincount(cell, self.rows[inside], spans * workers).reshape(spans, workers)
        return np.asarray(rows, dtype=np.float64)


Part = tuple[int, float]
"""A worker and how many rows it gets."""


def plain(rows: Floats, workers: int) -> Assignment:
    """Assign panes to workers in turn.

    Args:
        rows: Rows of each pane, shape (P,), >= 0; NaN counts as none.
        workers: Number of workers, >= 1.
    """
    return _assigned(rows, workers, lambda pane, size, mu, sigma: iter([(pane % workers, size)]))


def paper_rule(rows: Floats, workers: int, recent: int = RECENT) -> Assignment:
    """Assign as published: round robin; the rows of a large pane above the average go to the next workers.

    A pane is large above mu + sigma. A worker with small panes gets further panes until it has mu rows.

    Args:
        rows: Rows of each pane, shape (P,), >= 0; NaN counts as none.
        workers: Number of workers, >= 1.
        recent: How many panes are recent, >= 1.
    """
    turn, got = 0, 0.0

    def parts(pane: int, size: float, mu: float, sigma: float) -> Iterator[Part]:
        nonlocal turn, got
        most = max(mu, size / (MOST_PARTS * workers)) if 0 < mu < size - sigma else size
        while size > 0:
            # the last part includes the rounding error
            part = size if size <= most * (1 + 1e-9) else most
            yield turn, part
            size -= part
            got += part
            if got >= mu:
                turn, got = (turn + 1) % workers, 0.0

    return _assigned(rows, workers, parts, recent)


def least_loaded(rows: Floats, workers: int, recent: int = RECENT) -> Assignment:
    """Give each part to the worker with the fewest rows so far; split a pane above mu into parts of at most mu.

    Args:
        rows: Rows of each pane, shape (P,), >= 0; NaN counts as none.
        workers: Number of workers, >= 1.
        recent: How many panes are recent, >= 1.
    """
    load = np.zeros(workers)

    def parts(pane: int, size: float, mu: float, sigma: float) -> Iterator[Part]:
        most = max(mu, size / (MOST_PARTS * workers)) if mu > 0 else size
        count = ceil(size / most) if size > 0 else 1
        for _ in range(count):
            worker = int(np.argmin(load))
            load[worker] += size / count
            yield worker, size / count

    return _assigned(rows, workers, parts, recent)


def _assigned(
    rows: Floats, workers: int, parts: Callable[[int, float, float, float], Iterator[Part]], recent: int = RECENT
) -> Assignment:
    for key, value in (("workers", workers), ("recent", recent)):
        if value < 1:
            raise MillraceError(key, value, "a whole number >= 1", "Set a whole number.")
    given = np.asarray(rows, dtype=float)
    sizes = np.where(np.isnan(given), 0.0, given)
    if (sizes < 0).any() or not np.isfinite(sizes).all():
        raise MillraceError("rows", float(sizes.min(initial=0)), "finite numbers >= 0", "Count the rows of each pane.")
    seen: deque[float] = deque(maxlen=recent)
    assigned: list[tuple[int, int, float]] = []
    for pane, size in enumerate(sizes.tolist()):
        mu = float(np.mean(seen)) if seen else 0.0
        sigma = float(np.std(seen)) if seen else 0.0
        assigned += [(pane, worker, part) for worker, part in parts(pane, size, mu, sigma)]
        seen.append(size)
    table = np.array(assigned, dtype=float).reshape(-1, 3)
    return Assignment(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2])
