"""The taxis of San Francisco: each trip is a stream that joins, sends its positions and leaves.

Two days of a public trace are folded and replayed faster, as in the paper, to get higher rates: trips of all hours of a
day run at once. There is no metadata, and a trip ends before its cycle could be learned.

Reference: [DRFM] Section 6.1.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.data import folder
from benchmarks.drfm.frontier import comparison, scores
from benchmarks.drfm.method_run import MethodRun, run_method
from benchmarks.drfm.methods import METHODS, Method
from benchmarks.drfm.scenarios import summary
from benchmarks.record import Record
from benchmarks.simulation.admission import SplitNodes
from benchmarks.simulation.admission_workloads import StreamLoad
from millrace.local.stack.progress import say

FILE = "gps_sf_mon_tue.parquet"
FOLD_S, PERIOD_S = 7200, 60
"""The trace is folded to two hours: 24 of them run at once."""
CAPACITY = 4.0
"""Positions per second that a node can take: about twenty trips."""


def file() -> Path:
    """Return the path of the trace."""
    return folder() / FILE


def records(quick: bool) -> Iterator[Record]:
    """Run every method, and settings of DRF-M and ours, if the trace exists.

    Args:
        quick: Only the first half.
    """
    if not file().is_file():
        say(f"  - gps: skipped, as there is no {FILE} in {folder()} (MILLRACE_DATA)")
        return
    load = trips(FOLD_S // 2 if quick else FOLD_S)
    for name, make in METHODS.items():
        yield from summary("gps", name, [_run(load, make())])
    yield from comparison("gps_frontier", scores(lambda method: [_run(load, method).score()], quick))


def _run(load: StreamLoad, method: Method) -> MethodRun:
    return run_method(load, method, SplitNodes(CAPACITY, PERIOD_S))


def trips(until_s: int) -> StreamLoad:
    """Return the trips as streams, from second 0 of the folded trace to ``until_s``."""
    import pyarrow.parquet as pq

    table = pq.read_table(file(), columns=["trip_id", "ts"])
    trip = table["trip_id"].to_numpy()
    at = table["ts"].cast("int64").to_numpy() // 1_000_000
    _, index = np.unique(trip, return_inverse=True)
    begun = np.full(index.max() + 1, np.iinfo(np.int64).max)
    np.minimum.at(begun, index, at)
    # a trip is shifted as a whole: if it crosses the fold, it continues after it
    period = (begun[index] % FOLD_S + at - begun[index]) // PERIOD_S
    kept = period < until_s // PERIOD_S
    sent = np.zeros((until_s // PERIOD_S, len(begun)))
    np.add.at(sent, (period[kept], index[kept]), 1.0 / PERIOD_S)
    number = np.arange(len(sent))[:, None]
    first = np.where((sent > 0).any(axis=0), (sent > 0).argmax(axis=0), len(sent))
    last = len(sent) - 1 - (sent[::-1] > 0).argmax(axis=0)
    rates = np.where((number >= first) & (number <= last), sent, np.nan)
    here = first < len(sent)
    return StreamLoad(tuple(f"trip{i:05d}" for i in np.flatnonzero(here)), rates[:, here], {})
