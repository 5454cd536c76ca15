"""Forecast the rates of input streams from their metadata, from learned characteristics, and from their last rates.

A stream that was never seen is expected to behave as its metadata declare, completed by averages over the others. A
stream that was seen follows its declared or learned characteristics (:mod:`learning`) as far as they come true
(:mod:`trust`), or a forecast. Each of these sources has an error of its own: a source that is not believed does not
make a stream less certain.

Bad measurements are not used: a rate that is negative, not finite or absurdly high counts as missed, and the stream as
having behaved as expected. A stream that leaves is forgotten; if it comes back, it is new.

Symbols: S streams, T periods of history, D rows of the forecaster's state, H periods ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from pydantic import Field

from millrace.optimizers.api import MillraceError, Options
from millrace.optimizers.arrays import Bools, Floats, Ints
from millrace.optimizers.drfm.characteristics import Characteristics, cycle, expect, tabulate
from millrace.optimizers.drfm.forecast_state import ForecastState, connect, no_streams
from millrace.optimizers.drfm.forecasters import Best, Forecaster
from millrace.optimizers.drfm.learning import learn
from millrace.optimizers.drfm.metadata import Metadata
from millrace.optimizers.drfm.problem import Problem
from millrace.optimizers.drfm.trust import LEARNED, Belief, believe, trusts_declared_cycle, update_trust

WIDEST = 4.0
"""Growth of a forecast's variance beyond which it says nothing more: rates do not wander off without limit."""
FALL = 9.0
"""Squared error over the mean squared one beyond which a rate below the expected one counts as a fall."""
FADING = 0.5
"""Part of the assumption that a stream errs as others do that is left a period later: its own errors show soon."""


class ForecastOptions(Options):
    """How rates are forecast.

    Attributes:
        learns: Learn characteristics from history.
        history: Periods that are kept to learn from, >= 1, ideally twice the longest cycle; nothing is learned from
            fewer than 8.
        relearn: Periods from one learning to the next, >= 1.
        noise: Standard deviation of a rate over its mean before any error was seen, [0, 1].
        memory: Weight of a new period in the moving average of squared errors, (0, 1].
        absurd: Rate over a node's capacity from which it counts as a measurement error, > 0.
    """

    section: ClassVar[str] = "admission.options"

    learns: bool = True
    history: int = Field(192, ge=1)
    relearn: int = Field(4, ge=1)
    noise: float = Field(0.02, ge=0, le=1)
    memory: float = Field(0.1, gt=0, le=1)
    absurd: float = Field(100.0, gt=0)


@dataclass(frozen=True)
class RateForecaster:
    """Observes rates period by period and forecasts the next ones; it has no state of its own.

    Attributes:
        capacity: Capacity of a node, > 0.
        metadata: By stream; other streams have no declarations.
        forecaster: For streams whose cycle is unknown.
        options: How rates are forecast.
    """

    capacity: float
    metadata: Mapping[str, Metadata] = field(default_factory=dict)
    forecaster: Forecaster = field(default_factory=Best)
    options: ForecastOptions = field(default_factory=ForecastOptions)

    def start(self) -> ForecastState:
        """Return the state before any stream was connected."""
        return no_streams(self.forecaster.start(np.zeros(0)))

    def declare(self, state: ForecastState) -> ForecastState:
        """Return the state with the declared characteristics of its streams."""
        metadata = [self.metadata.get(stream) for stream in state.streams]
        periods = [np.nan if m is None or m.period is None else m.period for m in metadata]
        declared = tabulate(metadata, state.joined)
        return replace(state, declared=declared, declared_period=np.array(periods, dtype=float))

    def observe(self, state: ForecastState, period: int, streams: Sequence[str], rate: Floats) -> ForecastState:
        """Return the state after another period.

        Args:
            state: The previous state.
            period: Its number, rising; phases count in these numbers.
            streams: Ids of the streams that are connected when it ends; none twice.
            rate: Rate of each in it, shape (S,); NaN if it only just joined.

        Raises:
            MillraceError: If an id comes twice, or a rate is missing.
        """
        if len(rate) != len(streams):
            raise MillraceError("rate", len(rate), f"{len(streams)} rates", "Give one for each stream.")
        if tuple(streams) != state.streams:
            state = self.declare(connect(state, tuple(streams), period))
        rate = self._clean(np.asarray(rate, dtype=float))
        seen = np.isfinite(rate)
        declared, learned, _ = state.expected_by
        error, fallen = self._errors(state, rate)
        first = (state.seen == 0) & seen
        model = np.where(first, self.forecaster.start(rate), self.forecaster.update(state.model, rate))
        state = replace(
            state,
            now=period,
            rate=rate,
            seen=state.seen + seen,
            total=state.total + np.where(seen, rate, 0.0),
            trust=update_trust(state.trust, state.declared, declared, rate),
            learned_trust=update_trust(state.learned_trust, state.learned, learned, rate),
            error=error + fallen,
            fallen=fallen,
            model=model,
        )
        return self._expect_next(self._learn(state))

    def forecast(self, state: ForecastState, periods: int) -> tuple[Floats, Floats]:
        """Return mean and variance of the rates of the next periods, shape (periods, S) each."""
        rates, belief = self._forecast(state, periods), self._believe(state)
        table, seen = belief.table, state.seen > 0
        mean, variance = expect(table, state.now, state.rate, rates)
        growth = np.minimum(self.forecaster.spread(state.model, periods), WIDEST)
        growth = np.where((table.two_level & seen)[None], 1.0, growth)
        # the chain already includes the error of an on-off stream
        error = np.take_along_axis(state.error, belief.source[None], axis=0)[0]
        error = np.where(table.two_level & ~table.cyclic, 0.0, error)
        return mean, variance + error * growth + self._prior_variance(state, mean, table, error)

    def pose(
        self,
        state: ForecastState,
        periods: int,
        node: Ints,
        nodes: int,
        latency_s: Floats | None = None,
        running: tuple[int, ...] = (),
    ) -> Problem:
        """Return the admission problem of the next periods.

        Args:
            state: After the newest period.
            periods: Periods ahead that the planner should know, >= 1.
            node: Node of each stream, shape (S,); -1 for those that just joined.
            nodes: N.
            latency_s: Queueing delay of each node, shape (N,); None if not measured.
            running: Numbers of the nodes that run even without streams.

        Raises:
            MillraceError: If shapes do not fit, or a node does not exist.
        """
        mean, variance = self.forecast(state, periods)
        rate = np.where(np.isnan(state.rate), self._forecast(state, 1)[0], state.rate)
        return Problem(node, rate, mean, variance, self.capacity, nodes, latency_s, running)

    def _expect_next(self, state: ForecastState) -> ForecastState:
        rates = self._forecast(state, 1)
        mean, _ = expect(self._believe(state).table, state.now, state.rate, rates)
        cycles = (cycle(table, state.now, 1)[0] for table in (state.declared, state.learned))
        return replace(state, expected=mean[0], expected_by=np.stack([*cycles, rates[0]]))

    def _forecast(self, state: ForecastState, periods: int) -> Floats:
        """Return the expected rates without characteristics, shape (periods, S)."""
        rates = self.forecaster.forecast(state.model, periods)
        average = state.bounds.clip(np.nan_to_num(state.completed.average, nan=0.0))
        limit = self.options.absurd * self.capacity
        return np.where(state.seen > 0, np.minimum(rates, limit), average)

    def _believe(self, state: ForecastState) -> Belief:
        belief = believe(*state.sources(), state.bounds, state.now)
        table = state.completed.where(state.seen == 0, belief.table)
        return replace(belief, table=table)

    def _prior_variance(self, state: ForecastState, mean: Floats, table: Characteristics, error: Floats) -> Floats:
        """Return the assumed variance of streams that were rarely seen, shape of ``mean``.

        At first a stream is assumed to err as others of its kind do, over their means. A stream of which nothing is
        known is as far from the average as streams are from each other.
        """
        options = self.options
        # share of the true error that a moving average starting at 0 has reached
        weight = 1 - (1 - options.memory) ** state.seen
        variance = np.zeros_like(mean)
        for kind in (table.two_level, ~table.two_level):
            size = float((weight * mean[0] ** 2)[kind].sum())
            share = float(error[kind].sum()) / size if size > 0 else options.noise**2
            variance[:, kind] = (FADING**state.seen * share * mean**2)[:, kind]
        averages = state.average[state.seen > 0]
        strange = (state.seen == 0) & np.isnan(state.declared.average) & ~table.two_level
        return variance + np.where(strange, averages.var() if len(averages) else 0.0, 0.0)

    def _clean(self, rate: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            good = (rate >= 0) & (rate <= self.options.absurd * self.capacity)
        return np.where(good, rate, np.nan)

    def _errors(self, state: ForecastState, rate: Floats) -> tuple[Floats, Floats]:
        """Return the mean squared error of each source, and what a fall adds to it for a period, (SOURCES, S) each.

        A rate that falls needs less capacity: it makes a stream uncertain until the next period shows whether it stays
        low, and no longer. A rise counts as any other error.
        """
        memory, before = self.options.memory, state.error - state.fallen
        off = (rate - state.expected_by) ** 2
        least = (self.options.noise * np.nan_to_num(state.average)) ** 2
        usual = np.where(rate < state.expected_by, np.minimum(off, FALL * np.maximum(before, least)), off)
        known = np.isfinite(off)
        return (
            np.where(known, before + memory * (usual - before), before),
            np.where(known, memory * (off - usual), 0.0),
        )

    def _learn(self, state: ForecastState) -> ForecastState:
        options = self.options
        if not options.learns:
            return state
        kept = state.history[-(options.history - 1) :] if options.history > 1 else state.history[:0]
        state = replace(state, history=np.concatenate([kept, state.rate[None]]))
        if state.now % options.relearn:
            return state
        seen = np.minimum(state.seen.astype(int), len(state.history))
        # if the declared cycle comes true, there is nothing to learn
        needed = ~trusts_declared_cycle(*state.sources()) & (seen > 0)
        for count in np.unique(seen[needed]).tolist():
            state = self._learn_group(state, needed & (seen == count), count)
        return state

    def _learn_group(self, state: ForecastState, group: Bools, seen: int) -> ForecastState:
        """Learn from the streams that were seen for the same number of periods."""
        index = np.flatnonzero(group)
        history = _fill_gaps(state.history[-seen:, index])
        new = learn(history, state.now, state.hints.take(index)).spread(index, len(group))
        certain = group & new.two_level
        # errors from before the cycle was known say nothing about future ones
        fresh = certain & ~state.learned.cyclic & new.cyclic
        error, fallen = state.error.copy(), state.fallen.copy()
        error[LEARNED] = np.where(fresh, (self.options.noise * new.average) ** 2, error[LEARNED])
        fallen[LEARNED] = np.where(fresh, 0.0, fallen[LEARNED])
        return replace(
            state,
            error=error,
            fallen=fallen,
            learned_trust=np.where(certain & ~state.learned.two_level, 1.0, state.learned_trust),
            learned=new.where(group, state.learned),
        )


def _fill_gaps(history: Floats) -> Floats:
    """Return a history with gaps filled by the rate before them, or by the first rate if there is none before."""
    at = np.where(np.isnan(history), 0, np.arange(len(history))[:, None])
    first = np.argmax(~np.isnan(history), axis=0)
    index = np.maximum(np.maximum.accumulate(at, axis=0), first)
    return np.take_along_axis(history, index, axis=0)
