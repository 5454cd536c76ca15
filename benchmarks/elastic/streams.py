"""The streams: how many flights arrive each second. All contain flights of a whole day, in order of event time.

Rows are bound by waiting (a look-up that leaves the processor free), except in ``processor``, whose look-ups use only
processor time: more executors on this machine do not make it faster, and paying for them is a mistake. Nothing was
tuned on ``walk``, a random walk by seed, or ``taxis``, a recorded day.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from benchmarks.drfm.gps import file as trace
from millrace.local.feeds.nycflights import flights
from millrace.local.feeds.replay_clock import Clock, Replay

WAIT_MS = 60.0
PEAK_ROWS_PER_S = 72.0
"""Needs three of four executors, which leaves headroom; a sixth of it fits on one."""
FOLD_DAYS = 28
WALK_POINTS, WALK_SD, LEAST_OF_WALK = 24, 0.6, 0.05

Shape = Callable[[float], float]
"""Rate as a share of the peak, by the share of the stream that has passed, both 0..1."""


@dataclass(frozen=True)
class Stream:
    """A stream.

    Attributes:
        name: The scenario.
        counts: Rows of each second.
        wait_ms: Duration of a row's look-up.
    """

    name: str
    counts: tuple[int, ...]
    wait_ms: float = WAIT_MS

    @property
    def mean(self) -> float:
        """Mean rate, rows per second."""
        return sum(self.counts) / len(self.counts)

    def rate(self, second: float) -> float:
        """Return the rows that arrive in the second that ends now."""
        index = int(second) - 1
        return float(self.counts[index]) if index < len(self.counts) else 0.0

    def rows(self) -> pa.Table:
        """Return its rows in order, and one a day later, which closes all earlier windows."""
        total = sum(self.counts)
        replay = Replay(
            Clock(fold_days=FOLD_DAYS, day_s=1.0, rate_scale=float(-(-total // _day().num_rows))), flights()
        )
        rows = replay.tick(0)
        chosen = rows.take(np.linspace(0, rows.num_rows - 1, total).astype(np.int64))
        return pa.concat_tables([chosen, replay.tick(replay.clock.ticks)])


def step6(share: float) -> float:
    """Six times the load at once, and back."""
    return 1.0 if 0.25 <= share < 0.65 else 1 / 6


def sawtooth(share: float) -> float:
    """Three rises, each with a sudden end."""
    return 0.1 + 0.9 * (share * 3 % 1)


def silence(share: float) -> float:
    """An evening, a night without rows, and the morning."""
    return 0.6 if share < 0.25 else 0.0 if share < 0.65 else 1.0


def day(share: float) -> float:
    """The flights' day: almost nothing at night, two humps by day."""
    hours = _hours()
    return float(np.interp(share * 24, np.arange(24) + 0.5, hours, period=24) / hours.max())


def random_walk(seed: int) -> Shape:
    """Return a rate that wanders between a twentieth of the peak and the peak."""
    steps = np.random.default_rng(seed).normal(0.0, WALK_SD, WALK_POINTS)
    low, path = np.log(LEAST_OF_WALK), [np.log(LEAST_OF_WALK) / 2]
    for step in steps:
        here = path[-1] + step
        path.append(-here if here > 0 else 2 * low - here if here < low else here)  # reflected at both ends
    levels = np.exp(np.clip(path, low, 0.0))
    return lambda share: float(np.interp(share, np.linspace(0, 1, len(levels)), levels / levels.max()))


def taxis() -> Shape:
    """Return the positions that the taxis of San Francisco sent on the first recorded day.

    Raises:
        FileNotFoundError: If the trace is missing.
    """
    import pyarrow.parquet as pq

    at = pq.read_table(trace(), columns=["ts"])["ts"].cast("int64").to_numpy() // 1_000_000
    day_s = 24 * 3600
    counts = np.bincount(((at - at.min()) % day_s)[at - at.min() < day_s] // (day_s // 48), minlength=48)
    return lambda share: float(np.interp(share * 48, np.arange(48) + 0.5, counts / counts.max()))


def stream(name: str, shape: Shape, length_s: int, peak: float = PEAK_ROWS_PER_S, wait_ms: float = WAIT_MS) -> Stream:
    """Make a stream of a shape.

    Args:
        name: The scenario.
        shape: Its rate over time.
        length_s: Its length, seconds.
        peak: Its highest rate, rows per second.
        wait_ms: Duration of a row's look-up.
    """
    sofar = np.floor(np.cumsum([peak * shape(second / length_s) for second in range(length_s)]) + 1e-9)
    return Stream(name, tuple(np.diff(sofar, prepend=0.0).astype(int).tolist()), wait_ms)


@cache
def _day() -> pa.Table:
    return Replay(Clock(fold_days=FOLD_DAYS, day_s=1.0), flights()).tick(0)


@cache
def _hours() -> np.ndarray:
    hours = np.array([moment.hour for moment in _day()["event_time"].to_pylist()])
    return np.bincount(hours, minlength=24).astype(float)
