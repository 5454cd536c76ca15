"""State of input admission between evaluations, and how finished periods are added to it.

Periods are added one after another, as if each had been evaluated when it ended. The result does not depend on how many
come at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from millrace.optimizers.drfm.forecast_state import ForecastState
from millrace.optimizers.drfm.observed_periods import ObservedPeriods
from millrace.optimizers.drfm.options import AdmissionPolicy
from millrace.optimizers.drfm.problem import NEW, Floats, Ints
from millrace.optimizers.drfm.rate_forecaster import RateForecaster

NEVER = np.iinfo(np.intp).min
NEWEST = 72
"""Periods over which forecast accuracy is judged: errors of a short time, such as a night, say little."""


@dataclass(frozen=True)
class Accuracy:
    """Forecasts made a period ahead and actual rows, of the newest periods, the newest last; rows per period.

    Attributes:
        forecast: Of all connected streams together.
        actual: Actual rows of those streams together.
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
        """Absolute errors per stream over the actual rows; None without rows."""
        return self._over_actual(sum(self.off))

    @property
    def total_error(self) -> float | None:
        """The same for all streams together."""
        return self._over_actual(sum(abs(f - a) for f, a in zip(self.forecast, self.actual, strict=True)))

    def _over_actual(self, off: float) -> float | None:
        rows = sum(self.actual)
        return off / rows if rows > 0 else None


@dataclass(frozen=True)
class AdmissionState:
    """Knowledge of the S connected streams.

    Attributes:
        next_period: Number of the first period that is not included yet.
        streams: Their ids.
        node: Node of each, shape (S,).
        last_seen: Number of the last period in which each brought a row, shape (S,).
        forecast: State of their forecasts.
        accuracy: Accuracy of their forecasts.
        expected: Rows expected of each stream in the newest period; not kept between evaluations.
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

    def at_nodes(self, nodes: Mapping[str, int]) -> AdmissionState:
        """Return the state with each stream at another node; streams without one get NEW."""
        return replace(self, node=np.array([nodes.get(stream, NEW) for stream in self.streams], dtype=np.intp))


def first_state(forecaster: RateForecaster, next_period: int) -> AdmissionState:
    """Return the state before any stream was seen."""
    none = np.zeros(0, dtype=np.intp)
    return AdmissionState(next_period, (), none, none, forecaster.start())


def take_in(
    state: AdmissionState, observed: ObservedPeriods, forecaster: RateForecaster, policy: AdmissionPolicy
) -> AdmissionState:
    """Return the state after more periods, with each stream on its node in the newest plan.

    If periods were missed before the first of them, learning of rates starts over; streams stay at their nodes.

    Args:
        state: The previous state.
        observed: The periods; their streams include all known ones.
        forecaster: Forecasts the rates.
        policy: How streams are assigned, and when a stream counts as gone.
    """
    forecast, accuracy = state.forecast, state.accuracy
    if state.next_period != observed.first:
        forecast, accuracy = forecaster.start(), Accuracy()
    planner, names, options = policy.planner(), np.array(observed.streams, dtype=object), policy.options
    node, last_seen = (np.full(len(names), v, dtype=np.intp) for v in (NEW, NEVER))
    at = _positions(state.streams, observed.streams)
    node[at], last_seen[at] = state.node, state.last_seen
    here, expected, optimal = at, state.expected, state.optimal
    for period, rows in enumerate(observed.rows, observed.first):
        last_seen[rows > 0] = period
        node[last_seen <= period - options.quiet] = NEW
        expected = dict(zip(forecast.streams, forecast.expected.tolist(), strict=True))
        if expected:
            accuracy = accuracy.add(forecast.expected, rows[_positions(forecast.streams, observed.streams)])
        here = np.flatnonzero(last_seen > period - options.quiet)
        forecast = forecaster.observe(forecast, period, tuple(names[here].tolist()), rows[here])
        problem = forecaster.pose(forecast, options.ahead, node[here], int(node.max(initial=NEW)) + 1)
        plan = planner(problem)
        node[here], optimal = plan.node, plan.optimal
    return AdmissionState(
        next_period=observed.first + len(observed.rows),
        streams=tuple(names[here].tolist()),
        node=node[here],
        last_seen=last_seen[here],
        forecast=forecast,
        accuracy=accuracy,
        expected=expected,
        optimal=optimal,
    )


def _positions(names: Sequence[str], among: Sequence[str]) -> Ints:
    """Return the index of each name among others, which are in alphabetical order and contain all of them."""
    return np.asarray(np.searchsorted(np.array(among, dtype=object), np.array(names, dtype=object)), dtype=np.intp)
