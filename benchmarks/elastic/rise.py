"""How soon more slots are requested once more arrives: with the plan that the agent carries out, and without."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from benchmarks.delays_app import Feed, flight_rows
from benchmarks.elastic.cluster import Cluster
from benchmarks.elastic.methods import LIVE
from benchmarks.elastic.pipeline import READ_S, Pipeline, wait_until
from benchmarks.elastic.runs import make_pipeline, source_of
from benchmarks.elastic.streams import PEAK_ROWS_PER_S, WAIT_MS

LOW_ROWS_PER_S = 8.0
"""Fits on the fewest slots with room."""
LOOK_S = 0.1
STEADY_S = 10.0
"""Time at the low rate once the slots are known: the rise comes between two evaluations or batches at random."""
KNOWN_S = 180.0
"""Longest time until the throughput of the first slots is known."""
REQUEST_S = 120.0
"""Longest time until more slots are requested."""


@dataclass
class _Load:
    """A rate that rises once; ``risen`` is when the first of the additional rows came, seconds since 1970."""

    high: bool = False
    risen: float | None = None

    def __call__(self, _second: float) -> float:
        if self.high and self.risen is None:
            self.risen = time.time()
        return PEAK_ROWS_PER_S if self.high else LOW_ROWS_PER_S


def request_s(cluster: Cluster, name: str, contingencies: bool, period_s: float) -> float:
    """Return the time from the first additional row to the version with more slots, seconds.

    Args:
        cluster: The cluster.
        name: Name of the run, a folder.
        contingencies: Whether decisions plan for more arrival.
        period_s: Seconds between two evaluations.

    Raises:
        RuntimeError: If the app does not start, or if nothing is requested.
    """
    pipeline = make_pipeline(cluster, name, LIVE, WAIT_MS, period_s)
    tuner = pipeline.spec.tuner.model_copy(update={"options": {"contingencies": contingencies}})
    pipeline = replace(pipeline, spec=pipeline.spec.model_copy(update={"tuner": tuner}))
    feed, load = Feed(source_of(pipeline.home), flight_rows(1)), _Load()
    with pipeline.running(), pipeline.controlled("live"), feed.at(load):
        wait_until(lambda: _is_known(pipeline), "the throughput of the first slots", KNOWN_S, READ_S)
        time.sleep(STEADY_S)
        before = pipeline.latest().slots
        load.high = True
        wait_until(lambda: pipeline.latest().slots > before, "more slots", REQUEST_S, LOOK_S)
        requested = time.time()
    if load.risen is None:
        raise RuntimeError("slots were added before the rise")
    return requested - load.risen


def _is_known(pipeline: Pipeline) -> bool:
    newest = next(iter(pipeline.tables.decisions.recent(pipeline.spec.name, 1)), None)
    app = next(iter(newest.signals.apps), None) if newest is not None and newest.signals is not None else None
    return app is not None and app.capacity is not None
