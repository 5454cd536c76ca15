"""True values of a micro-batch app: its stages take turns on the app's slots, after a fixed cost.

    duration = o(p) + sum_i rows_i / PA_i(p)
    1 / PA(p) = sum_i (rows of operator i per arriving row) / PA_i(p), for the mix of sources as it arrives.
p is the real parallelism: min(tasks, slots).
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks.simulation.ability import Array
from benchmarks.simulation.scenario import Scenario
from benchmarks.simulation.truth import FIXED, KNEE, TOLERANCE, Factors, Levels, Rates, drawn, stream
from millrace.model import row_wait

LEVELS_SPREAD = 0.25
"""Relative spread of the operators' own levels around the app's."""


class MicroBatchTruth:
    """Abilities of the operators, and of the app that they form.

    The operators' curves are scaled so that the app takes a drawn number of slots at the peak rate and the target
    utilisation. An operator's share of the work is its vertex's share of the sum of levels.

    Args:
        scenario: The case.
        seed: Seed of the run.
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        shape, options = scenario.shape, scenario.micro_batch
        self.operators = shape.sizable
        self._levels, self._high = scenario.bounds.levels, scenario.bounds.max_slots
        self._objective, self._options = scenario.measure, options
        rng = stream(seed, FIXED, shape.name)
        top = float(rng.uniform(*options.slots))
        first = float(rng.uniform(*options.fixed_s))
        self._fixed = [first * (1 + options.fixed_growth * (p - 1)) for p in range(1, self._high + 1)]
        peak = np.array(scenario.workload.peak)
        gains: Array = np.array(shape.gains)
        work = np.array([sum(shape.vertex[name].levels) for name in self.operators])
        shares = work / work.sum() * self._objective.target_utilisation
        needs = np.maximum(gains @ peak, TOLERANCE) / shares
        ranges = dict.fromkeys(self.operators, (top * (1 - LEVELS_SPREAD), top * (1 + LEVELS_SPREAD)))
        table = drawn(scenario, seed, ranges, dict(zip(self.operators, needs.tolist(), strict=True)))
        # each operator meets its own need at its own level; together they must meet it at the app's
        used = float(np.sum(gains @ peak / table[:, min(self._high, round(top)) - 1]))
        reach = np.array([scenario.reach.get(name, 1.0) for name in self.operators])
        self._table: Array = table * reach[:, None] * used / self._objective.target_utilisation
        self._gains = gains
        self._units = np.array(tuple(shape.units.values()))
        self._app = shape.name
        self._costs: dict[tuple[int, Factors], tuple[float, ...]] = {}
        self._paces: dict[tuple[Rates, Factors], list[float]] = {}
        self._minima: dict[tuple[Rates, Factors], Levels] = {}
        self._abilities: dict[tuple[Rates, Factors], Array] = {}

    def ability(self, unit: str) -> Array:
        """Return PA(1..p_max) of an operator, or of the app at the unit rates' mix, before drift, rows per second."""
        if unit == self._app:
            return self._app_ability(tuple(self._units.tolist()), (1.0,) * len(self.operators)).copy()
        abilities: Array = self._table[self.operators.index(unit)]
        return abilities.copy()

    def ran(self, slots: int) -> int:
        """Return the real p: min(tasks, slots)."""
        splits = self._options.source_splits
        return slots if splits is None else min(slots, splits)

    def fixed_s(self, slots: int) -> float:
        """Return o(p), seconds."""
        return self._fixed[self.ran(slots) - 1]

    def s_per_row(self, slots: int, factors: Factors) -> tuple[float, ...]:
        """Return the seconds of a batch that a row of each source costs."""
        key = slots, factors
        if key not in self._costs:
            abilities = self._table[:, self.ran(slots) - 1] * np.array(factors)
            self._costs[key] = tuple((self._gains / abilities[:, None]).sum(axis=0).tolist())
        return self._costs[key]

    def operator_abilities(self, slots: int, factors: Factors) -> list[float]:
        """Return PA_i of each operator at the real p, rows per second."""
        found: list[float] = (self._table[:, self.ran(slots) - 1] * np.array(factors)).tolist()
        return found

    def sustained(self, slots: int, rates: Rates, factors: Factors) -> float:
        """Return the highest sustainable rate, rows per second; for full batches x / (o + x / PA)."""
        return self._sustained(rates, factors)[slots - 1]

    def minimum(self, rates: Rates, factors: Factors) -> Levels:
        """Return the least slots that meet target utilisation and latency goal, or else the knee."""
        key = rates, factors
        if key not in self._minima:
            self._minima[key] = (self._least(rates, factors),)
        return self._minima[key]

    def adequate(self, levels: Levels, rates: Rates, factors: Factors) -> bool:
        """Return whether the app sustains the arrival rate, or nearly as much as any p does."""
        most = max(self._allowed(rates, factors))
        needed = sum(rates) if sum(rates) <= most else KNEE * most
        return self.sustained(levels[0], rates, factors) >= needed * (1 - TOLERANCE)

    def sustains(self, levels: Levels, rates: Rates, factors: Factors) -> bool:
        """Return whether the app can sustain the whole arrival rate."""
        return self.sustained(levels[0], rates, factors) >= sum(rates) * (1 - TOLERANCE)

    def planned_s(self, slots: int) -> float:
        """Return the longest batch that the objective plans for, seconds: min(max_lag_s / 2, o / (1 - target))."""
        return self._objective.planned_batch_s(self.fixed_s(slots))

    def _app_ability(self, rates: Rates, factors: Factors) -> Array:
        key = rates, factors
        if key not in self._abilities:
            mix = np.array(rates) if sum(rates) > 0 else self._units
            per_row = self._gains @ (mix / mix.sum())
            cost = (per_row[:, None] / (self._table * np.array(factors)[:, None])).sum(axis=0)
            p = [self.ran(slots) - 1 for slots in range(1, self._high + 1)]
            self._abilities[key] = (1 / cost)[p]
        return self._abilities[key]

    def _sustained(self, rates: Rates, factors: Factors) -> list[float]:
        key = rates, factors
        if key not in self._paces:
            x, of_app = self._options.batch_rows_limit, self._app_ability(rates, factors)
            fixed = np.array([self.fixed_s(p) for p in range(1, self._high + 1)])
            self._paces[key] = (of_app if x is None else x / (fixed + x / of_app)).tolist()
        return self._paces[key]

    def _allowed(self, rates: Rates, factors: Factors) -> list[float]:
        sustained = self._sustained(rates, factors)
        return [sustained[p - 1] for p in self._levels]

    def _least(self, rates: Rates, factors: Factors) -> int:
        rate, objective, limit = sum(rates), self._objective, self._options.batch_rows_limit
        ability = self._app_ability(rates, factors)
        for p in self._levels:
            room = row_wait.highest_utilisation(self.fixed_s(p), objective.max_lag_s)
            fixed = 0.0 if limit is None else rate * self.fixed_s(p) / limit
            allowed = min(objective.target_utilisation - fixed, room if room > 0 else math.inf)
            if rate <= allowed * float(ability[p - 1]) * (1 + TOLERANCE):
                return p
        sustained = self._allowed(rates, factors)
        wanted = max(KNEE * max(sustained), rate if rate <= max(sustained) else 0.0)
        return next(p for p, s in zip(self._levels, sustained, strict=True) if s >= wanted * (1 - TOLERANCE))
