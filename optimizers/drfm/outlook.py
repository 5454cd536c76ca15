"""What is expected of the streams: period by period from their rates, their metadata, and what was learned of them.

Of a stream that was not seen yet, what is told is expected, completed by averages over the others. Of one that was
seen, what is told and what was learned from history (:mod:`metadata.learn`), as far as they come true
(:mod:`metadata.belief`), or a forecast. Each of these sources has its own error, so that one which is not believed
makes no stream less certain.

What is measured badly is not used: a rate that is negative, not a number, infinite or beyond all reason counts as not
seen, and the stream as doing what was expected of it. A stream that leaves is forgotten; one that comes back is new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from include.model.errors import MillraceError
from optimizers.drfm.forecast.best import Best
from optimizers.drfm.forecast.forecaster import Forecaster
from optimizers.drfm.metadata.belief import LEARNED, SOURCES, Belief, Bounds, Source, believe, told_cycles
from optimizers.drfm.metadata.expectation import cycle, expect
from optimizers.drfm.metadata.learn import Hints, Learning, learn
from optimizers.drfm.metadata.stream import Metadata
from optimizers.drfm.metadata.table import Table, complete, tabulate, told_periods, unknown
from optimizers.drfm.metadata.trust import Trust
from optimizers.drfm.problem import Bools, Floats, Ints
from optimizers.ranges import ADMISSION, POSITIVE, SHARE, Allowed, Range, check_fields


@dataclass(frozen=True)
class Options:
    """Where expectations come from.

    Attributes:
        learns: Learn metadata from history.
        history: Periods that are kept to learn from, >= 8; twice the longest cycle.
        relearn: Periods from one learning to the next, >= 1.
        noise: Standard deviation of a rate over its mean before any error was seen, [0, 1].
        memory: Weight of a new period in the moving average of squared errors, (0, 1].
        absurd: Rate over a node's capacity from which it is a fault of measurement, > 0.
        learning: When what was learned is believed.
        trust: When what was told is believed.
    """

    learns: bool = True
    history: int = 192
    relearn: int = 4
    noise: float = 0.02
    memory: float = 0.1
    absurd: float = 100.0
    learning: Learning = field(default_factory=Learning)
    trust: Trust = field(default_factory=Trust)

    def __post_init__(self) -> None:
        """Refuse what is out of range.

        Raises:
            MillraceError: With the option, its value, what is allowed and the remedy.
        """
        check_fields(self, ALLOWED, ADMISSION)


ALLOWED: Mapping[str, Allowed] = {
    "learns": None,
    "history": int,
    "relearn": int,
    "noise": Range(0, 1),
    "memory": SHARE,
    "absurd": POSITIVE,
}


@dataclass(frozen=True)
class Snapshot:
    """All that an outlook keeps: one that is restored from it goes on as the old one would have.

    Attributes:
        now: Number of the newest period that was observed.
        streams: Ids of the streams, S of them.
        columns: Arrays by name, shape (S,) or (D, S) each; NaN for what is not known.
    """

    now: int
    streams: tuple[str, ...]
    columns: Mapping[str, Floats]


class Outlook:
    """Expectations of the streams that are connected.

    Args:
        capacity: Of a node, > 0.
        metadata: By stream; nothing of a stream that is not in it.
        forecaster: For streams whose cycle is not known.
        options: Where expectations come from.
    """

    def __init__(
        self,
        capacity: float,
        metadata: Mapping[str, Metadata] | None = None,
        forecaster: Forecaster | None = None,
        options: Options | None = None,
    ) -> None:
        self._metadata, self._forecaster = metadata or {}, forecaster or Best()
        self._options, self._capacity = options or Options(), capacity
        self.streams: tuple[str, ...] = ()
        self.now = -1
        none = np.zeros(0)
        self.rate: Floats = none
        self._rows = _Rows(none, none, none, np.zeros((SOURCES, 0)), none, none)
        self._state, self._history = self._forecaster.start(none), np.zeros((0, 0))
        self._told, self._learned = unknown(0), unknown(0)
        self._hints = Hints.none(0)
        self._expected = np.zeros((1 + SOURCES, 0))

    def observe(self, period: int, streams: Sequence[str], rate: Floats) -> None:
        """Take in a period.

        Args:
            period: Its number, rising; phases are told in these numbers.
            streams: Ids of the streams that are connected when it ends; none twice.
            rate: Rate of each in it, shape (S,); NaN if it only just joined.

        Raises:
            MillraceError: If an id comes twice, or a rate is missing.
        """
        if len(rate) != len(streams):
            raise MillraceError("rate", len(rate), f"{len(streams)} rates", "Give one for each stream.")
        self.now = period
        if tuple(streams) != self.streams:
            self._admit(tuple(streams))
        self.rate = self._clean(np.asarray(rate, dtype=float))
        rows, options = self._rows, self._options
        _, told, learned, _ = self._expected
        rows.trust = options.trust.update(rows.trust, self._told, told, self.rate)
        rows.learned_trust = options.trust.update(rows.learned_trust, self._learned, learned, self.rate)
        off = (self.rate - self._expected[1:]) ** 2
        rows.error = np.where(np.isfinite(off), rows.error + options.memory * (off - rows.error), rows.error)
        first = (rows.seen == 0) & np.isfinite(self.rate)
        begun, going = self._forecaster.start(self.rate), self._forecaster.update(self._state, self.rate)
        self._state = np.where(first, begun, going)
        finite = np.isfinite(self.rate)
        rows.seen = rows.seen + finite
        rows.total = rows.total + np.where(finite, self.rate, 0.0)
        self._learn()

    def ahead(self, periods: int) -> tuple[Floats, Floats]:
        """Return mean and variance of the rates of the next periods, shape (periods, S) each."""
        rows, bounds = self._rows, self._bounds()
        forecast, belief = self._forecast(periods, bounds), self._believed(bounds)
        table, seen = belief.table, rows.seen > 0
        mean, variance = expect(table, self.now, self.rate, forecast)
        wider = np.minimum(self._forecaster.spread(self._state, periods), _WIDEST)
        spread = np.where((table.two_level & seen)[None], 1.0, wider)
        # the error of an on-off stream is in its chain already
        error = np.where(table.two_level & ~table.cyclic, 0.0, _of(rows.error, belief.source))
        cycles = (cycle(known, self.now, 1)[0] for known in (self._told, self._learned))
        self._expected = np.stack([mean[0], *cycles, forecast[0]])
        return mean, variance + error * spread + self._unsure(mean, table, error)

    def _unsure(self, mean: Floats, table: Table, error: Floats) -> Floats:
        """Return the variance that is supposed of streams of which little was seen, shape of ``mean``.

        At first a stream is taken to err as others of its kind do, over their means. One of which nothing is known is
        as far from the average as streams are from each other.
        """
        rows, options = self._rows, self._options
        # share of the true error that a moving average which began at 0 has reached
        weight = 1 - (1 - options.memory) ** rows.seen
        found = np.zeros_like(mean)
        for kind in (table.two_level, ~table.two_level):
            size = float((weight * mean[0] ** 2)[kind].sum())
            share = float(error[kind].sum()) / size if size > 0 else options.noise**2
            found[:, kind] = (_FADING**rows.seen * share * mean**2)[:, kind]
        apart = self._observed()[rows.seen > 0]
        strange = (rows.seen == 0) & np.isnan(self._told.average) & ~table.two_level
        return found + np.where(strange, apart.var() if len(apart) else 0.0, 0.0)

    def typical(self) -> Floats:
        """Return the last rate of each stream, or what is expected of one that has none, shape (S,)."""
        return np.where(np.isnan(self.rate), self._forecast(1, self._bounds())[0], self.rate)

    @property
    def expected(self) -> Floats:
        """What :meth:`ahead` told of the next period when it was last asked, shape (S,)."""
        told: Floats = self._expected[0]
        return told

    def snapshot(self) -> Snapshot:
        """Return all that is kept, for :meth:`restore`."""
        columns = {
            **{name: getattr(self._rows, name) for name in _ROWS},
            **{_LEARNED + name: getattr(self._learned, name) for name in _TABLE},
            "rate": self.rate,
            "state": self._state,
            "history": self._history,
            "expected": self._expected,
        }
        return Snapshot(self.now, self.streams, columns)

    def restore(self, kept: Snapshot) -> None:
        """Go on from a snapshot of an outlook with the same forecaster; what is told may have changed since.

        Raises:
            MillraceError: If a column is missing, or not of these streams.
        """
        streams, columns = len(kept.streams), _with_sources(kept.columns)
        for name in (*_ROWS, *(_LEARNED + n for n in _TABLE), "rate", "state", "history", "expected"):
            if name not in columns or columns[name].shape[-1:] != (streams,):
                found = columns[name].shape if name in columns else None
                raise MillraceError(f"columns.{name}", found, f"a value for each of {streams} streams", "Begin anew.")
        state = self._forecaster.start(np.zeros(streams)).shape
        shapes = {"state": state, "error": (SOURCES, streams), "expected": (1 + SOURCES, streams)}
        for name, shape in shapes.items():
            if columns[name].shape != shape:
                raise MillraceError(f"columns.{name}", columns[name].shape, f"shape {shape}", "Begin anew.")
        self.now, self.streams, self.rate = kept.now, kept.streams, columns["rate"]
        self._rows = _Rows(**{name: columns[name] for name in _ROWS})
        self._learned = Table(**{name: columns[_LEARNED + name] for name in _TABLE})
        self._state, self._history, self._expected = columns["state"], columns["history"], columns["expected"]
        self._tell()

    def _forecast(self, periods: int, bounds: Bounds) -> Floats:
        rows = self._rows
        found = self._forecaster.forecast(self._state, periods)
        average = np.nan_to_num(complete(self._told, self._observed()).average, nan=0.0)
        return np.where(rows.seen > 0, np.minimum(found, self._options.absurd * self._capacity), bounds.clip(average))

    def _observed(self) -> Floats:
        seen = self._rows.seen
        return np.where(seen > 0, self._rows.total / np.maximum(seen, 1), np.nan)

    def _bounds(self) -> Bounds:
        return Bounds.of(self._told, np.vstack([self._history, self.rate]))

    def _believed(self, bounds: Bounds) -> Belief:
        belief = believe(*self._sources(), self._options.trust, bounds, self.now)
        table = complete(self._told, self._observed()).choose(belief.table, self._rows.seen == 0)
        return replace(belief, table=table)

    def _sources(self) -> tuple[Source, Source, Floats]:
        """Return what is told, what was learned, and the error of forecasts."""
        rows, (told, learned, forecast) = self._rows, self._rows.error
        return Source(self._told, rows.trust, told), Source(self._learned, rows.learned_trust, learned), forecast

    def _tell(self) -> None:
        told = [self._metadata.get(stream) for stream in self.streams]
        self._told = tabulate(told, self._rows.joined)
        self._hints = Hints(told_periods(told), self._told.up, self._told.down)

    def _clean(self, rate: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            good = (rate >= 0) & (rate <= self._options.absurd * self._capacity)
        return np.where(good, rate, np.nan)

    def _admit(self, streams: tuple[str, ...]) -> None:
        """Keep what is known of the streams that stay, and begin with the others."""
        before = {stream: i for i, stream in enumerate(self.streams)}
        if len(set(streams)) < len(streams):
            raise MillraceError("streams", len(streams) - len(set(streams)), "0 doubles", "Name each stream once.")
        kept: Ints = np.array([before.get(stream, -1) for stream in streams], dtype=np.intp)
        new = kept < 0
        self._rows = self._rows.take(kept, new, self.now)
        self._state = _columns(self._state, kept, new)
        self._history = _columns(self._history, kept, new)
        self._expected = _columns(self._expected, kept, new)
        self._learned = self._learned.take(kept)
        self.streams = streams
        self._tell()

    def _learn(self) -> None:
        options = self._options
        if not options.learns:
            return
        kept = self._history[-(options.history - 1) :] if options.history > 1 else self._history[:0]
        self._history = np.concatenate([kept, self.rate[None]])
        if self.now % options.relearn:
            return
        seen = np.minimum(self._rows.seen.astype(int), len(self._history))
        # what is told and comes true is not asked of history
        needed = ~told_cycles(*self._sources(), options.trust)
        for count in np.unique(seen[needed]).tolist():
            self._learn_of(needed & (seen == count), count)

    def _learn_of(self, streams: Bools, seen: int) -> None:
        """Learn of the streams that were seen for the same number of periods."""
        if not seen:
            return
        index = np.flatnonzero(streams)
        history, hints = _filled(self._history[-seen:, index]), self._hints.take(index)
        found = learn(history, self.now, self._options.learning, hints)
        back = np.full(len(streams), -1, dtype=np.intp)
        back[index] = np.arange(len(index))
        whole = found.take(back)
        news = streams & whole.two_level
        self._rows.learned_trust = np.where(news & ~self._learned.two_level, 1.0, self._rows.learned_trust)
        # what was off before the cycle was known says nothing about the errors from now on
        fresh = news & ~self._learned.cyclic & whole.cyclic
        self._rows.error[LEARNED] = np.where(
            fresh, (self._options.noise * whole.average) ** 2, self._rows.error[LEARNED]
        )
        self._learned = whole.choose(self._learned, streams)


_WIDEST = 4.0
"""Growth of a forecast's variance beyond which it says nothing more: rates do not wander off without end."""
_FADING = 0.5
"""What is left, a period later, of supposing that a stream errs as others do: its own errors tell soon."""


@dataclass
class _Rows:
    """What is kept of each stream, shape (S,) each; of ``error`` a row for each source, shape (SOURCES, S)."""

    joined: Floats
    seen: Floats
    total: Floats
    error: Floats
    trust: Floats
    learned_trust: Floats

    def take(self, kept: Ints, new: Bools, now: int) -> _Rows:
        def column(values: Floats, first: float) -> Floats:
            found: Floats = np.where(new, first, values[..., kept] if values.shape[-1] else first)
            return found

        return _Rows(
            joined=column(self.joined, float(now)),
            seen=column(self.seen, 0.0),
            total=column(self.total, 0.0),
            error=column(self.error, 0.0),
            trust=column(self.trust, 1.0),
            learned_trust=column(self.learned_trust, 1.0),
        )


_ROWS = tuple(f.name for f in fields(_Rows))
_TABLE = tuple(f.name for f in fields(Table))
_LEARNED = "learned."


def _with_sources(columns: Mapping[str, Floats]) -> Mapping[str, Floats]:
    """Return the columns of a snapshot; one that was made before each source had its own error gets them."""
    error, expected = (columns.get(name, np.zeros(0)) for name in ("error", "expected"))
    if error.ndim != 1 or expected.shape != (SOURCES, len(error)):
        return columns
    forecast = np.full((1, len(error)), np.nan)
    return {**columns, "error": np.tile(error, (SOURCES, 1)), "expected": np.concatenate([expected, forecast])}


def _of(values: Floats, source: Ints) -> Floats:
    """Return the value of each stream's source, shape (S,), of values of shape (SOURCES, S)."""
    found: Floats = np.take_along_axis(values, source[None], axis=0)[0]
    return found


def _columns(values: Floats, kept: Ints, new: Bools) -> Floats:
    if not values.shape[1]:
        return np.full((len(values), len(kept)), np.nan)
    return np.where(new, np.nan, values[:, kept])


def _filled(history: Floats) -> Floats:
    """Return a history whose gaps hold the rate before them, or behind them at its begin."""
    at = np.where(np.isnan(history), 0, np.arange(len(history))[:, None])
    first = np.argmax(~np.isnan(history), axis=0)
    index = np.maximum(np.maximum.accumulate(at, axis=0), first)
    return np.take_along_axis(history, index, axis=0)
