"""Memory of a rate forecaster about the connected streams, as a value.

Symbols: S streams, T periods of history, D rows of the forecaster's state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from millrace.model.errors import MillraceError
from millrace.optimizers.arrays import Floats
from millrace.optimizers.drfm.characteristics import Characteristics, complete, take, unknown
from millrace.optimizers.drfm.learning import Hints
from millrace.optimizers.drfm.trust import SOURCES, RateBounds, Source


@dataclass(frozen=True)
class ForecastState:
    """Memory about the connected streams: every array has one column per stream.

    Attributes:
        now: Number of the newest period that was observed.
        streams: Their ids.
        rate: Newest rate, shape (S,); NaN if it was missed.
        joined: Period in which each joined, shape (S,).
        seen: Periods with a rate, shape (S,).
        total: Sum of those rates, shape (S,).
        trust: Trust in declared characteristics, shape (S,).
        learned_trust: Trust in learned characteristics, shape (S,).
        error: Recent mean squared error of each source, shape (SOURCES, S).
        fallen: Part of it that counts for one period only, as the rate fell far below that source, shape (SOURCES, S).
        expected: Rate expected in the next period, shape (S,).
        expected_by: The same by each source alone, shape (SOURCES, S); NaN if it does not say.
        history: Rates to learn from, shape (T, S), the newest last.
        model: The forecaster's state, shape (D, S).
        learned: Characteristics learned from history.
        declared: Characteristics declared in the metadata; follows from them.
        declared_period: Period of the declared cycle, shape (S,); follows from the metadata.
    """

    now: int
    streams: tuple[str, ...]
    rate: Floats
    joined: Floats
    seen: Floats
    total: Floats
    trust: Floats
    learned_trust: Floats
    error: Floats
    fallen: Floats
    expected: Floats
    expected_by: Floats
    history: Floats
    model: Floats
    learned: Characteristics
    declared: Characteristics
    declared_period: Floats

    @cached_property
    def average(self) -> Floats:
        """Mean rate of each stream, shape (S,); NaN for streams never seen."""
        return np.where(self.seen > 0, self.total / np.maximum(self.seen, 1), np.nan)

    @cached_property
    def bounds(self) -> RateBounds:
        """Declared bounds of the rates, as far as they hold."""
        return RateBounds.of(self.declared, np.vstack([self.history, self.rate]))

    @cached_property
    def completed(self) -> Characteristics:
        """Declared characteristics, completed by averages over the other streams."""
        return complete(self.declared, self.average)

    @property
    def hints(self) -> Hints:
        """Declarations that help to learn."""
        return Hints(self.declared_period, self.declared.up, self.declared.down)

    def sources(self) -> tuple[Source, Source, Floats]:
        """Return the declared source, the learned source, and the error of forecasts."""
        declared, learned, forecast = self.error
        return (
            Source(self.declared, self.trust, declared),
            Source(self.learned, self.learned_trust, learned),
            forecast,
        )


def no_streams(model: Floats) -> ForecastState:
    """Return the state before any stream was connected.

    Args:
        model: The forecaster's state of no streams, shape (D, 0).
    """
    none, by_source = np.zeros(0), np.zeros((SOURCES, 0))
    return ForecastState(
        now=-1,
        streams=(),
        rate=none,
        joined=none,
        seen=none,
        total=none,
        trust=none,
        learned_trust=none,
        error=by_source,
        fallen=by_source,
        expected=none,
        expected_by=by_source,
        history=np.zeros((0, 0)),
        model=model,
        learned=unknown(0),
        declared=unknown(0),
        declared_period=none,
    )


def connect(state: ForecastState, streams: tuple[str, ...], period: int) -> ForecastState:
    """Return the state for other streams: those that stay keep their columns, the others get new ones.

    Args:
        state: The previous state.
        streams: Ids of the streams connected now; their declarations are filled in later.
        period: Period in which the others join.

    Raises:
        MillraceError: If an id comes twice.
    """
    doubles = len(streams) - len(set(streams))
    if doubles:
        raise MillraceError("streams", doubles, "0 doubles", "Name each stream once.")
    before = {stream: i for i, stream in enumerate(state.streams)}
    kept = np.array([before.get(stream, -1) for stream in streams], dtype=np.intp)
    return replace(
        state,
        streams=streams,
        rate=take(state.rate, kept, np.nan),
        joined=take(state.joined, kept, float(period)),
        seen=take(state.seen, kept, 0.0),
        total=take(state.total, kept, 0.0),
        trust=take(state.trust, kept, 1.0),
        learned_trust=take(state.learned_trust, kept, 1.0),
        error=take(state.error, kept, 0.0),
        fallen=take(state.fallen, kept, 0.0),
        expected=take(state.expected, kept, np.nan),
        expected_by=take(state.expected_by, kept, np.nan),
        history=take(state.history, kept, np.nan),
        model=take(state.model, kept, np.nan),
        learned=state.learned.take(kept),
    )
