"""The paper's workloads of many input streams: the rate of each stream in each period, and its metadata.

    psfcw, ptfcw   pairs that jump, or follow a trend, in opposite directions: the total is constant
    sfvar, tfvar   the same streams, each with its own cycle: the total varies
    bursty         on and off for exponentially distributed times; the metadata contains neither start nor end
    constw         constant rates
    surge          streams that rise one after another, all stay high for a while, and fall again: the load grows
                   eightfold and back

Tuples arrive at random (Poisson) around the rate. A load level is the number of nodes that can take the mean load.

Reference: Balkesen, Tatbul, Ozsu, DEBS 2013, Section 6.1.1. The paper gives no numbers except the 80 streams: ranges
here are ours, and the most important ones are constants below.
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
"""Least and most periods that a stream is high or low, whole numbers."""
RAMPS = (4, 8)
"""Least and most periods of a trend."""
FILLED = 0.95
"""Mean load divided by the capacity of the level's nodes."""
UNEVEN = (0.4, 1.6)
"""Mean rate of a stream divided by that of all streams."""
SWING = (0.4, 0.9)
"""Difference of the levels from the mean, divided by the mean."""
PEAK = 0.9
"""Highest rate divided by a node's capacity."""
SURGE = 8
"""Load at the height of a surge divided by the load before: 32 nodes' worth over 4 (Section 6.5 of the paper)."""
RISES = (0.1, 0.4)
"""Range of the share of a surge's time at which streams start to rise; they start to fall as long before its end."""


@dataclass(frozen=True)
class Size:
    """The size of a workload.

    Attributes:
        streams: Number of streams, >= 2, even.
        level: Nodes that can take the mean load, > 0.
        periods: Number of periods, >= 1.
        capacity: Capacity of a node, tuples per second.
        period_s: Length of a period.
    """

    streams: int = 80
    level: float = 8
    periods: int = 200
    capacity: float = 10_000.0
    period_s: float = 10.0

    def __post_init__(self) -> None:
        """Reject invalid sizes.

        Raises:
            MillraceError: With the field, its value, the allowed range and the remedy.
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
        metadata: Metadata of each stream, by id, in the form of a spec.
    """

    streams: tuple[str, ...]
    rates: Floats
    metadata: Mapping[str, Mapping[str, Any]]


def paired(size: Size, seed: int, *, trend: bool) -> StreamLoad:
    """Return streams that fluctuate in opposite pairs: psfcw, or ptfcw with ``trend``."""
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
    """Return streams that fluctuate independently: sfvar, or tfvar with ``trend``."""
    rng = np.random.default_rng([seed, 2])
    mean, swing = _means(size, size.streams, rng), rng.uniform(*SWING, size.streams)
    up, down = rng.integers(*DURATIONS, (2, size.streams), endpoint=True).astype(float)
    phase = np.floor(rng.uniform(0, up + down))
    ramp = _ramps(np.minimum(up, down), rng, trend)
    return _cyclic(size, rng, _levels(size, mean, swing), (up, down), phase, ramp)


def bursty(size: Size, seed: int) -> StreamLoad:
    """Return on-off streams; the metadata contains mean durations but no phase."""
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
    """Return streams with constant rates: constw."""
    rng = np.random.default_rng([seed, 4])
    mean = np.minimum(_means(size, size.streams, rng), PEAK * size.capacity)
    columns = {"minimum": mean, "maximum": mean, "average": mean}
    return _told(size, rng, np.repeat(mean[None], size.periods, axis=0), columns, None)


def surge(size: Size, seed: int) -> StreamLoad:
    """Return streams that follow a trend up and down again, once; the level applies to the time in between."""
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
