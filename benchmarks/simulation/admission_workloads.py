"""The paper's workloads of many input streams: who sends how much in each period, and what is told of it beforehand.

    psfcw, ptfcw   pairs that jump, or go by a trend, opposite of each other: the total is constant
    sfvar, tfvar   the same streams with cycles of their own: the total varies
    bursty         on and off for exponentially distributed times; neither begin nor end is told
    constw         constant rates
    surge          streams that rise one after another, all stay high for a while, and fall again: the load grows
                   eightfold and back

Tuples arrive at random (Poisson) around the rate. A load level is the number of nodes that can take the mean load.

Reference: Balkesen, Tatbul, Ozsu, DEBS 2013, Section 6.1.1. The paper gives no numbers beside 80 streams: ranges here
are ours, and the ones that decide most stand as constants below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from millrace.model.errors import MillraceError

Floats = NDArray[np.float64]

DURATIONS = (8, 24)
"""Periods that a stream is high or low, from and to, whole numbers."""
RAMPS = (4, 8)
"""Periods that a trend takes, from and to."""
FILLED = 0.95
"""Mean load over what the level's nodes can take."""
UNEVEN = (0.4, 1.6)
"""Mean rate of a stream over that of all."""
SWING = (0.4, 0.9)
"""Difference of the levels from the mean over the mean."""
PEAK = 0.9
"""Highest rate over a node's capacity."""
SURGE = 8
"""Load at the height of a surge over that before: 32 nodes' worth over 4 (Section 6.5 of the paper)."""
RISES = (0.1, 0.4)
"""Share of a surge's time at which streams begin to rise, from and to; they begin to fall as much before its end."""


@dataclass(frozen=True)
class Size:
    """How large a workload is.

    Attributes:
        streams: How many, >= 2, even.
        level: Nodes that can take the mean load, > 0.
        periods: How long, >= 1.
        capacity: Of a node, tuples a second.
        period_s: Length of a period.
    """

    streams: int = 80
    level: float = 8
    periods: int = 200
    capacity: float = 10_000.0
    period_s: float = 10.0

    def __post_init__(self) -> None:
        """Refuse what is no size.

        Raises:
            MillraceError: With the field, its value, what is allowed and the remedy.
        """
        if self.streams < 2 or self.streams % 2:
            raise MillraceError("streams", self.streams, "an even number >= 2", "Streams come in pairs.")
        for name in ("level", "periods", "capacity", "period_s"):
            if not getattr(self, name) > 0:
                raise MillraceError(name, getattr(self, name), "> 0", "Set a value within the range.")


@dataclass(frozen=True)
class StreamLoad:
    """A workload.

    Attributes:
        streams: Ids, K of them.
        rates: Shape (T, K); NaN while a stream is not connected.
        metadata: What is told of each stream, by id, as a spec has it.
    """

    streams: tuple[str, ...]
    rates: Floats
    metadata: Mapping[str, Mapping[str, Any]]


def paired(size: Size, seed: int, *, trend: bool) -> StreamLoad:
    """Return streams that fluctuate in pairs, opposite of each other: psfcw, or ptfcw with ``trend``."""
    rng = np.random.default_rng([seed, 1])
    half = size.streams // 2
    mean, swing = np.repeat(_means(size, half, rng), 2), np.repeat(rng.uniform(*SWING, half), 2)
    duration = np.repeat(rng.integers(*DURATIONS, half, endpoint=True), 2).astype(float)
    phase = np.repeat(np.floor(rng.uniform(0, 2 * duration[::2])), 2)
    phase[1::2] += duration[1::2]
    ramp = _ramps(duration, rng, trend)
    ramp[1::2] = ramp[::2]
    return _cyclic(size, rng, _levels(size, mean, swing), (duration, duration), np.mod(phase, 2 * duration), ramp)


def independent(size: Size, seed: int, *, trend: bool) -> StreamLoad:
    """Return streams that fluctuate each for itself: sfvar, or tfvar with ``trend``."""
    rng = np.random.default_rng([seed, 2])
    mean, swing = _means(size, size.streams, rng), rng.uniform(*SWING, size.streams)
    up, down = rng.integers(*DURATIONS, (2, size.streams), endpoint=True).astype(float)
    phase = np.floor(rng.uniform(0, up + down))
    ramp = _ramps(np.minimum(up, down), rng, trend)
    return _cyclic(size, rng, _levels(size, mean, swing), (up, down), phase, ramp)


def bursty(size: Size, seed: int) -> StreamLoad:
    """Return on-off streams; durations are told as their means, the phase is not."""
    rng = np.random.default_rng([seed, 3])
    mean = _means(size, size.streams, rng)
    up, down = rng.integers(*DURATIONS, (2, size.streams), endpoint=True).astype(float)
    high = np.minimum(mean * (up + down) / up, PEAK * size.capacity)
    on = np.empty((size.periods, size.streams), dtype=bool)
    state = rng.random(size.streams) < up / (up + down)
    for t in range(size.periods):
        on[t] = state
        state = state ^ (rng.random(size.streams) < 1 / np.where(state, up, down))
    columns = {"minimum": np.zeros(size.streams), "maximum": high, "high_duration": up, "low_duration": down}
    return _told(size, rng, high * on, columns, "jump")


def constant(size: Size, seed: int) -> StreamLoad:
    """Return streams of constant rates: constw."""
    rng = np.random.default_rng([seed, 4])
    mean = np.minimum(_means(size, size.streams, rng), PEAK * size.capacity)
    columns = {"minimum": mean, "maximum": mean, "average": mean}
    return _told(size, rng, np.repeat(mean[None], size.periods, axis=0), columns, None)


def surge(size: Size, seed: int) -> StreamLoad:
    """Return streams that rise by a trend and fall again, once; the level is that of the time in between."""
    rng = np.random.default_rng([seed, 5])
    high = np.minimum(_means(size, size.streams, rng), PEAK * size.capacity)
    low = high * rng.uniform(*UNEVEN, size.streams)
    low *= high.sum() / SURGE / low.sum()
    rise, fall = (np.floor(size.periods * rng.uniform(*ends, size.streams)) for ends in (RISES, _mirrored(RISES)))
    up = fall - rise
    durations = (up, size.periods - up)
    return _cyclic(size, rng, (low, high), durations, rise, _ramps(np.minimum(*durations), rng, trend=True))


def _mirrored(ends: tuple[float, float]) -> tuple[float, float]:
    return 1 - ends[1], 1 - ends[0]


WORKLOADS: Mapping[str, Callable[[Size, int], StreamLoad]] = {
    "psfcw": lambda size, seed: paired(size, seed, trend=False),
    "ptfcw": lambda size, seed: paired(size, seed, trend=True),
    "sfvar": lambda size, seed: independent(size, seed, trend=False),
    "tfvar": lambda size, seed: independent(size, seed, trend=True),
    "bursty": bursty,
    "constw": constant,
}


def _means(size: Size, count: int, rng: np.random.Generator) -> Floats:
    raw = rng.uniform(*UNEVEN, count)
    found: Floats = raw / raw.mean() * FILLED * size.level * size.capacity / size.streams
    return found


def _levels(size: Size, mean: Floats, swing: Floats) -> tuple[Floats, Floats]:
    high = np.minimum(mean * (1 + swing), PEAK * size.capacity)
    return mean * (1 - swing), high


def _ramps(shortest: Floats, rng: np.random.Generator, trend: bool) -> Floats:
    drawn = rng.integers(*RAMPS, len(shortest), endpoint=True).astype(float)
    return np.minimum(drawn, shortest) if trend else np.zeros(len(shortest))


def _cyclic(
    size: Size,
    rng: np.random.Generator,
    levels: tuple[Floats, Floats],
    durations: tuple[Floats, Floats],
    phase: Floats,
    ramp: Floats,
) -> StreamLoad:
    (low, high), (up, down) = levels, durations
    inside = np.mod(np.arange(size.periods)[:, None] + 0.5 - phase, up + down)
    begun = np.where(inside < up, inside, inside - up)
    done = np.minimum(begun / np.where(ramp > 0, ramp, 1e-9), 1.0)
    rates = low + (high - low) * np.where(inside < up, done, 1 - done)
    columns = {"minimum": low, "maximum": high, "high_duration": up, "low_duration": down, "phase": phase}
    if ramp.any():
        columns["slope_duration"] = ramp
    return _told(size, rng, rates, columns, "trend" if ramp.any() else "jump")


def _told(
    size: Size, rng: np.random.Generator, rates: Floats, columns: Mapping[str, Floats], transition: str | None
) -> StreamLoad:
    streams = tuple(f"s{i:05d}" for i in range(size.streams))
    told: dict[str, dict[str, Any]] = {
        stream: {name: float(column[i]) for name, column in columns.items()} for i, stream in enumerate(streams)
    }
    if transition:
        for stream in streams:
            told[stream]["transition"] = transition
    arrived: Floats = rng.poisson(rates * size.period_s) / size.period_s
    return StreamLoad(streams, arrived, told)
