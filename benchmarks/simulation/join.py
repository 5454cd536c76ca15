"""A simulated stream join: workers that share a window, shed load, and are evaluated once per period.

Time advances in steps of a second. In each step the workload's tuples arrive, and the shed ratio's share of them is
dropped, exactly over time. The others stay in the window for phi seconds. They are spread over the workers so that the
fullest keeps a block more than the emptiest, which is what forwarding by blocks guarantees. Every new tuple meets the
part of each worker, and each block has an additional cost. Work that a worker cannot finish in a step waits: a new
tuple waits for the earlier work, and for half of the work that arrived with it.

Shed ratio and block size take effect at once. Added workers arrive after a delay and then take their share at once.
Memory is not bounded: tuples above a worker's capacity are reported, not lost.

Reference: [ESJ-A], [ESJ-C] ("Workload difference between workers"). The costs are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from millrace.model.errors import MillraceError
from millrace.model.join import JoinSettings, JoinSignals

Ints = NDArray[np.int64]

BEGIN = datetime(2013, 1, 1, tzinfo=UTC)
STREAMS = ("left", "right")


@dataclass(frozen=True)
class JoinCluster:
    """The constant parameters.

    Attributes:
        capacity: W, most tuples that a worker should keep, >= 2.
        window_s: phi, whole seconds, >= 1.
        period_s: From one evaluation to the next, whole seconds, >= 1.
        delay_s: Time until added workers arrive, whole seconds, >= 0.
        pair_s: Cost of comparing a new tuple with one tuple of the window, worker seconds, >= 0.
        tuple_s: Additional cost of a new tuple, >= 0.
        block_s: Cost of a block, >= 0.
    """

    capacity: int = 7500
    window_s: int = 60
    period_s: int = 10
    delay_s: int = 20
    pair_s: float = 1e-7
    tuple_s: float = 2e-5
    block_s: float = 1e-3

    def __post_init__(self) -> None:
        """Reject values out of range.

        Raises:
            MillraceError: With the field, its value, the allowed range and the remedy.
        """
        least = {"capacity": 2, "window_s": 1, "period_s": 1, "delay_s": 0, "pair_s": 0, "tuple_s": 0, "block_s": 0}
        for name, low in least.items():
            if not low <= getattr(self, name) < math.inf:
                raise MillraceError(name, getattr(self, name), f">= {low}", "Set a value within the range.")


@dataclass(frozen=True)
class JoinScore:
    """The score of a run.

    Attributes:
        shed_ratio: Share of all tuples that were dropped, 0..1.
        scale_events: Changes of the number of workers.
        latency_ms: In 95 % of the seconds no new tuple waited longer.
        fullest_ratio: Highest utilisation of any worker.
        worker_s: Total seconds of all workers.
    """

    shed_ratio: float
    scale_events: int
    latency_ms: float
    fullest_ratio: float
    worker_s: float


class JoinPlant:
    """A join under a load: :meth:`advance` by a period, then :meth:`apply` new settings.

    Args:
        arrivals: Tuples of each stream in each second, shape (T, 2), >= 0.
        settings: Initial settings.
        cluster: The constant parameters.

    Raises:
        MillraceError: If the shape does not match, or a number is negative.
    """

    def __init__(self, arrivals: Ints, settings: JoinSettings, cluster: JoinCluster | None = None) -> None:
        if arrivals.ndim != 2 or arrivals.shape[1] != len(STREAMS) or (arrivals < 0).any():
            raise MillraceError("arrivals", arrivals.shape, "shape (T, 2), >= 0", "Correct the workload.")
        self.cluster = cluster or JoinCluster()
        self.settings = settings
        self.workers = settings.workers
        self.second = 0
        self._arrivals = arrivals
        self._kept = np.zeros_like(arrivals)
        self._owed = np.zeros(len(STREAMS))
        self._coming: tuple[int, int] | None = None
        self._waiting_s = 0.0
        self._latency_s: list[float] = []
        self._fullest: list[int] = []
        self._present: list[int] = []
        self._events = 0

    @property
    def over(self) -> bool:
        """Whether no whole period of the load is left."""
        return self.second + self.cluster.period_s > len(self._arrivals)

    def apply(self, settings: JoinSettings) -> None:
        """Apply new settings to the join."""
        if settings.workers != self.settings.workers:
            self._events += 1
            delay = self.cluster.delay_s if settings.workers > self.workers else 0
            self._coming = (self.second + delay, settings.workers)
        self.settings = settings

    def advance(self) -> JoinSignals:
        """Let a period pass and return its measurements.

        Raises:
            MillraceError: If the load has ended.
        """
        if self.over:
            raise MillraceError("second", self.second, f"a period before {len(self._arrivals)}", "End the run.")
        since, before, blocks = self.second, self._in_window(self._arrivals), 0
        for _ in range(self.cluster.period_s):
            blocks += self._step()
        arrived, kept = (column[since : self.second].sum(axis=0) for column in (self._arrivals, self._kept))
        return JoinSignals(
            workers=self.workers,
            block=self.settings.block,
            shed=self.settings.shed,
            capacity=self.cluster.capacity,
            window_s=float(self.cluster.window_s),
            window_tuples=spread(self._in_window(self._kept), self.workers, self.settings.block),
            offered=self._in_window(self._arrivals),
            offered_before=before if since else None,
            until=BEGIN + timedelta(seconds=self.second),
            period_s=float(self.cluster.period_s),
            arrived=dict(zip(STREAMS, arrived.tolist(), strict=True)),
            dropped=dict(zip(STREAMS, (arrived - kept).tolist(), strict=True)),
            messages=blocks,
        )

    def score(self) -> JoinScore:
        """Return the score of the run so far.

        Raises:
            MillraceError: If no period has passed.
        """
        if not self.second:
            raise MillraceError("periods", 0, ">= 1", "Let a period pass.")
        arrived, kept = (int(column[: self.second].sum()) for column in (self._arrivals, self._kept))
        return JoinScore(
            shed_ratio=1 - kept / arrived if arrived else 0.0,
            scale_events=self._events,
            latency_ms=1000 * float(np.quantile(self._latency_s, 0.95)),
            fullest_ratio=max(self._fullest) / self.cluster.capacity,
            worker_s=float(sum(self._present)),
        )

    def _step(self) -> int:
        """Let a second pass and return the blocks that workers received."""
        if self._coming is not None and self.second >= self._coming[0]:
            self.workers, self._coming = self._coming[1], None
        new = self._arrivals[self.second]
        self._owed += new * self.settings.shed
        dropped = np.minimum(np.floor(self._owed + 1e-9).astype(np.int64), new)
        self._owed -= dropped
        self._kept[self.second] = new - dropped
        self.second += 1
        tuples, cluster = int((new - dropped).sum()), self.cluster
        fullest = max(spread(self._in_window(self._kept), self.workers, self.settings.block))
        blocks = math.ceil(tuples / self.settings.block)
        work_s = tuples * (cluster.tuple_s + fullest * cluster.pair_s) + blocks * cluster.block_s
        self._latency_s.append(self._waiting_s + work_s / 2)
        self._waiting_s = max(0.0, self._waiting_s + work_s - 1)
        self._fullest.append(fullest)
        self._present.append(self.workers)
        return blocks * self.workers

    def _in_window(self, tuples: Ints) -> int:
        return int(tuples[max(0, self.second - self.cluster.window_s) : self.second].sum())


def spread(tuples: int, workers: int, block: int) -> tuple[int, ...]:
    """Return what each worker keeps: the first up to a block more than the last, the others the mean.

    Args:
        tuples: Tuples of the whole window, >= 0.
        workers: m, >= 1.
        block: Block size, >= 1.
    """
    mean, rest = divmod(tuples, workers)
    found = [mean + (i < rest) for i in range(workers)]
    moved = min(max(0, block - (rest > 0)) // 2, found[-1]) if workers > 1 else 0
    found[0] += moved
    found[-1] -= moved
    return tuple(found)
