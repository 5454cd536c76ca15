"""One operator in one look: everything that deciding on it takes, put together once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from include.contracts.signals import AppSignals, Bounds, Signals
from optimizers.conttune.cbo import d_nearest
from optimizers.conttune.curve import Curve, curve
from optimizers.conttune.demand import Demand, demand
from optimizers.conttune.history import Columns, Level, columns, levels, nearest, with_current
from optimizers.conttune.inputs import rate
from optimizers.conttune.memory import Notes
from optimizers.conttune.options import Options
from optimizers.conttune.plateau import ceiling
from optimizers.conttune.state import State, backpressured, job_state
from optimizers.conttune.surrogate import fit

JUMP = 0.1
"""Relative change of the rate between two looks that no ordinary fluctuation makes."""
TRIFLE = 0.01
"""Share of the ability below which a change of the rate decides nothing, whatever it is relative to the rate."""
TOLERANCE = 1e-9
"""Relative rounding error that decides nothing."""


@dataclass(frozen=True)
class Look:
    """One operator in one look; today a whole app is one.

    Attributes:
        operator: Its id, as in the observations.
        app: The signals of its app.
        bounds: Allowed levels.
        demand: What it has to process.
        observed: Its levels by rising p.
        notes: What is remembered of it, the present fixed cost included.
        time: Time of the look (UTC).
        options: ContTune's.
    """

    operator: str
    app: AppSignals
    bounds: Bounds
    demand: Demand
    observed: tuple[Level, ...]
    notes: Notes
    time: datetime
    options: Options

    @property
    def now(self) -> int:
        """The level that is set: the app's slots."""
        return self.app.slots

    @property
    def effective(self) -> int:
        """The level that really runs: fewer tasks than slots leave slots idle."""
        ran = self.app.parallelism
        return min(ran, self.now) if self.options.source_splits and ran is not None else self.now

    @property
    def observed_levels(self) -> Sequence[int]:
        """Observed p by rising p."""
        return [level.parallelism for level in self.observed]

    @property
    def base(self) -> Level:
        """The observed level that a linear suggestion starts from: the nearest to the one that runs."""
        return nearest(self.observed, self.effective)

    @cached_property
    def training(self) -> Columns:
        """The points that the surrogate is fitted on."""
        return columns(self.observed)

    @cached_property
    def curve(self) -> Curve:
        """The surrogate over all levels that matter; needs an observed level."""
        highest = max(self.bounds.max_slots, self.now)
        return curve(fit(self.training, self.options), self.observed, highest, self.options)

    @property
    def ability_now(self) -> float:
        """PA of the level that runs, rows a second."""
        return self.expected(self.effective)

    @property
    def sustained_now(self) -> float:
        """Rate that the level that runs sustains, rows a second: PA, or less where batches are limited."""
        return self.demand.sustained(self.ability_now, self.effective)

    def expected(self, parallelism: int) -> float:
        """Return the PA that is to be expected at a level, rows a second.

        It is the curve's, but where the curve is the paper's and the level outside the known regions: there the linear
        method's, as Algorithm 2 trusts nothing else, and the authors' GP falls to 0.
        """
        if self.options.monotone or d_nearest(parallelism, self.observed_levels) <= self.options.alpha:
            return self.curve.at(parallelism)
        level = nearest(self.observed, parallelism)
        return level.ability * parallelism / level.parallelism

    @property
    def p_max(self) -> int:
        """End of the search (Eq. 2 and 5): the highest level known where the Big phase raises it, else the bound."""
        if not self.options.uses_big:
            return self.bounds.max_slots
        return min(max(self.highest_known, 1), self.bounds.max_slots)

    @property
    def highest_known(self) -> int:
        """The paper's p_max: the highest level of all H^t, of the Big phase, or set at present."""
        return max(self.now, self.notes.p_max, *self.observed_levels)

    @cached_property
    def ceiling(self) -> int | None:
        """The level beyond which more was measured to bring nothing; None if none is known."""
        return ceiling(self.observed, self.time, self.options) if self.options.ineffective_stop else None

    @cached_property
    def state(self) -> State:
        """The job's state: by feasibility, or by the paper's rule, which needs no model."""
        if not self.options.micro_batch or not self.observed:
            return job_state(self.app.backpressured_ratio, self.app.slot_busy_ratio, self.options)
        required = self.demand.required_at(self.effective, self.options.tolerance if self.options.stop_rule else 0.0)
        # the processed rate cannot exceed the ability, so without the arrival rate only the backlog tells
        hidden = not self.options.known_arrival_rate and backpressured(
            self.app.backpressured_ratio or 0.0, self.options
        )
        if hidden or required > self.ability_now * (1 + TOLERANCE):
            return State.UNDER
        return State.OVER if self._reducible() else State.NORMAL

    @property
    def slack(self) -> float:
        """Share of what the set level could process that is not required, idle slots included."""
        return 1.0 - self.demand.required_at(self.now) / self.expected(self.now)

    @property
    def half_old(self) -> bool:
        """True if the rate jumped since the last look, so that the period holds rows of both, and the app keeps up."""
        before, rate = self.notes.rate, self.demand.rate
        if not self.options.whole_windows or before is None or rate > self.ability_now:
            return False
        return abs(rate - before) > max(JUMP * max(rate, before), TRIFLE * self.ability_now)

    def _reducible(self) -> bool:
        if self.now <= self.bounds.min_slots:
            return False
        if self.options.stop_rule:
            return self.slack >= self.options.slack
        return self.curve.at(self.now - 1) >= self.demand.required_at(self.now - 1)


def look(signals: Signals, app: AppSignals, notes: Notes, options: Options) -> Look:
    """Put together the look at an app as one operator.

    Args:
        signals: The period.
        app: One of its apps, free of problems (:mod:`optimizers.conttune.inputs`).
        notes: What is remembered of it.
        options: ContTune's.
    """
    points = with_current(signals.observations, app.app, app.capacity, signals.until)
    notes = notes.with_fixed(app.capacity, options.top_k)
    fixed_s: Mapping[int, Sequence[float]] = notes.fixed_s
    return Look(
        operator=app.app,
        app=app,
        bounds=signals.bounds,
        demand=demand(app, rate(app, options) or 0.0, fixed_s, signals.objective, options),
        observed=levels(points, options.top_k),
        notes=notes,
        time=signals.until,
        options=options,
    )
