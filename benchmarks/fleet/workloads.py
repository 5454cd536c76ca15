"""The rates of a fleet's streams: the paper's workloads, over a day whose load needs one to four nodes.

The paper keeps the mean load constant. Then a fixed number of nodes is right, and there is nothing to start or stop. So
all rates follow a day as well: low, up to a short peak, and low again. They are scaled so that the streams together
fill :data:`PEAK_NODES` nodes in the busiest period.

No method is told the streams' characteristics: nobody declares them for hundreds of tables, and the day would make
them wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.simulation.admission_workloads import WORKLOADS as PAPERS
from benchmarks.simulation.admission_workloads import Size

Floats = npt.NDArray[np.float64]

PEAK_NODES = 3.9
"""Load in the busiest period, in nodes; four can take it if their streams are spread well."""
NIGHT = 0.2
"""Load at the beginning and the end of the day relative to its height: a node takes it."""
WORKLOADS: Mapping[str, str] = {
    "psfcw": "pairs of streams that jump in opposite directions",
    "ptfcw": "pairs of streams that follow a trend in opposite directions",
    "sfvar": "streams that jump, each with its own cycle",
    "tfvar": "streams that follow a trend, each with its own cycle",
    "bursty": "streams that are on and off at random",
}
"""The paper's workloads that are run live."""


@dataclass(frozen=True)
class Load:
    """How many rows arrive at each stream.

    Attributes:
        streams: Names of the S streams.
        rates: Rows per second in each of T periods, shape (T, S), >= 0.
        period_s: Length of a period, seconds.
    """

    streams: tuple[str, ...]
    rates: Floats
    period_s: float

    @property
    def length_s(self) -> float:
        """Length of the whole load, seconds."""
        return len(self.rates) * self.period_s


def load(workload: str, size: Size, seed: int) -> Load:
    """Return a workload.

    Args:
        workload: One of :data:`WORKLOADS`.
        size: Number of streams and periods, their length, and the capacity of a node; the level is without effect.
        seed: Seed of the streams.
    """
    papers = PAPERS[workload](size, seed)
    rates = papers.rates * day(size.periods)[:, None]
    rates *= PEAK_NODES * size.capacity / rates.sum(axis=1).max()
    return Load(papers.streams, rates, size.period_s)


def day(periods: int) -> Floats:
    """Return the load of each period relative to the height of the day, shape (T,)."""
    share = (np.arange(periods) + 0.5) / periods
    found: Floats = NIGHT + (1 - NIGHT) * ((1 - np.cos(2 * math.pi * share)) / 2) ** 2
    return found
