"""State of input admission between evaluations, and how finished periods are added to it.

Periods are added one after another, as if each had been evaluated when it ended. The result does not depend on how many
come at once, unless streams really move: then they start from their present nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from millrace.optimizers.arrays import Floats, Ints
from millrace.optimizers.drfm.forecast_state import ForecastState
from millrace.optimizers.drfm.observed_periods import ObservedPeriods
from millrace.optimizers.drfm.options import AdmissionPolicy
from millrace.optimizers.drfm.problem import NEW
from millrace.optimizers.drfm.rate_forecaster import RateForecaster

NEVER = np.iinfo(np.intp).min
NEWEST = 72
"""Periods over which forecast accuracy is judged: errors of a short time, such as a night, say little."""


@dataclass(frozen=True)
class Accuracy:
    """Forecasts made a period ahead and actual loads, of the newest periods, the newest last; counts per period.

    Attributes:
        forecast: Of all connected streams together.
        actual: Actual load of those streams together.
        off: Absolute errors, summed over the streams.
    """

    forecast: tuple[float, ...] = ()
    actual: tuple[float, ...] = ()
    off: tuple[float, ...] = ()

    def add(self, forecast: Floats, actual: Floats) -> Accuracy:
        """Return the accuracy with another period added, shape (S,) each."""
        sums = (forecast.sum(), actual.sum(), abs(forecast - actual).sum())
        columns = zip((self.forecast, self.actual, self.off), sums, strict=True)
        return Accuracy(*((*column, float(new))[-NEWEST:] for column, new in columns))

    @property
    def error(self) -> float | None:
        """Absolute errors per stream over the actual load; None without load."""
        return self._over_actual(sum(self.off))

    @property
    def total_error(self) -> float | None:
        """The same for all streams together."""
        return self._over_actual(sum(abs(f - a) for f, a in zip(self.forecast, self.actual, strict=True)))

    def _over_actual(self, off: float) -> float | None:
        load = sum(self.actual)
        return off / load if load > 0 else None


@dataclass(frozen=True)
class AdmissionState:
    """Knowledge of the S connected streams.

    Attributes:
        next_period: Number of the first period that is not included yet.
        streams: Their ids.
        node: Node of each, shape (S,).
        last_seen: Number of the last period in which each had a load, shape (S,).
        forecast: State of their forecasts.
        accuracy: Accuracy of their forecasts.
        expected: Load expected of each stream in the newest period; not kept between evaluations.
        optimal: The newest plan is proven best; not kept between evaluations.
    """

    next_period: int
    streams: tuple[str, ...]
    node: Ints
    last_seen: Ints
    forecast: ForecastState
    accuracy: Accuracy = field(default_factory=Accuracy)
    expected: Mapping[str, float] = field(default_factory=dict)
    optimal: bool = False

    @property
    def nodes(self) -> Mapping[str, int]:
        """Node of each stream that has one."""
        return {name: node for name, node in zip(self.streams, self.node.tolist(), strict=True) if node > NEW}


def first_state(forecaster: RateForecaster, next_period: int) -> AdmissionState:
    """Return the state before any stream was seen."""
    none = np.zeros(0, dtype=np.intp)
    return AdmissionState(next_period, (), none, none, forecaster.start())


def take_in(
    state: AdmissionState,
    observed: ObservedPeriods,
    forecaster: RateForecaster,
    policy: AdmissionPolicy,
    present: Mapping[str, int] | None = None,
    running: tuple[int, ...] = (),
) -> AdmissionState:
    """Return the state after more periods, with each stream on its node in the newest plan.

    If periods were missed before the first of them, learning of rates starts over; streams stay at their nodes. What
    streams are behind with counts in the newest period: it is of the present, and goes with a stream that moves.

    Args:
        state: The previous state.
        observed: The periods; their streams include all known ones.
        forecaster: Forecasts the rates.
        policy: How streams are assigned, and when a stream counts as gone.
        present: Node of each stream that has one, if streams really move. Then only the newest period is planned, as
            plans of the others are not carried out. None if each plan counts as carried out.
        running: Numbers of the nodes that run even without streams.
    """
    forecast, accuracy = state.forecast, state.accuracy
    if state.next_period != observed.first:
        forecast, accuracy = forecaster.start(), Accuracy()
    planner, names, options = policy.planner(), np.array(observed.streams, dtype=object), policy.options
    node, last_seen = (np.full(len(names), v, dtype=np.intp) for v in (NEW, NEVER))
    at = positions(state.streams, observed.streams)
    node[at], last_seen[at] = state.node, state.last_seen
    here, expected, optimal = at, state.expected, state.optimal
    last = observed.first + len(observed.load) - 1
    removed = np.array([name in observed.removed for name in observed.streams], dtype=bool)
    for period, load in enumerate(observed.load, observed.first):
        last_seen[(load > 0) | np.isnan(load)] = period
        last_seen[removed] = NEVER
        node[last_seen <= period - options.quiet] = NEW
        expected = dict(zip(forecast.streams, forecast.expected.tolist(), strict=True))
        if expected:
            actual = load[positions(forecast.streams, observed.streams)]
            accuracy = accuracy.add(forecast.expected, np.where(np.isnan(actual), forecast.expected, actual))
        here = np.flatnonzero(last_seen > period - options.quiet)
        forecast = forecaster.observe(forecast, period, tuple(names[here].tolist()), load[here])
        if present is not None:
            if period < last:
                continue
            node[here] = [present.get(name, NEW) for name in names[here]]
        nodes = max(int(node.max(initial=NEW)), max(running, default=NEW)) + 1
        latency_s = _latency_s(observed, node, here, forecaster.capacity, nodes) if period == last else None
        plan = planner(forecaster.pose(forecast, options.ahead, node[here], nodes, latency_s, running))
        node[here], optimal = plan.node, plan.optimal
    return AdmissionState(
        next_period=observed.first + len(observed.load),
        streams=tuple(names[here].tolist()),
        node=node[here],
        last_seen=last_seen[here],
        forecast=forecast,
        accuracy=accuracy,
        expected=expected,
        optimal=optimal,
    )


def _latency_s(observed: ObservedPeriods, node: Ints, here: Ints, capacity: float, nodes: int) -> Floats | None:
    """Return the queueing delay of each node, shape (N,): the time to work off what its streams are behind with.

    Args:
        observed: The periods; if they measured nothing that waits, there is no delay to return.
        node: Node of each of their streams, shape (S,).
        here: Which of these are connected.
        capacity: Load that a node takes in a period, > 0.
        nodes: N.
    """
    if observed.waiting is None:
        return None
    placed = here[node[here] > NEW]
    queue = np.bincount(node[placed], weights=observed.waiting[placed], minlength=nodes)
    return np.asarray(queue / capacity * observed.period_s)


def positions(names: Sequence[str], among: Sequence[str]) -> Ints:
    """Return the index of each name among others, which are in alphabetical order and contain all of them."""
    return np.asarray(np.searchsorted(np.array(among, dtype=object), np.array(names, dtype=object)), dtype=np.intp)
