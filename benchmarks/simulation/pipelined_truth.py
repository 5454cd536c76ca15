"""True values of a pipelined job: every operator has its own slots, and processes what its inputs pass."""

from __future__ import annotations

import numpy as np

from benchmarks.simulation.ability import Array
from benchmarks.simulation.scenario import Scenario
from benchmarks.simulation.throttle import passing
from benchmarks.simulation.truth import KNEE, TOLERANCE, Factors, Levels, Rates, drawn

LEAST_SHARE = 0.1
"""Least weight of a source, in unit rates: a source with a backlog and no arrivals must also drain."""


class PipelinedTruth:
    """Abilities and needs of each operator.

    Args:
        scenario: The case.
        seed: Seed of the run.
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        shape = scenario.shape
        self.units = shape.sizable
        self.gains = shape.gains
        self.weights = tuple(shape.units.values())
        self._levels = np.array(scenario.bounds.levels)
        self._target = scenario.measure.target_utilisation
        peaks = dict(zip(self.units, self._loads(scenario.workload.peak), strict=True))
        levels = {name: shape.vertex[name].levels for name in self.units}
        needs = {name: (need or 1.0) * scenario.reach.get(name, 1.0) for name, need in peaks.items()}
        self._table = drawn(scenario, seed, levels, needs)
        self._rows: list[list[float]] = self._table.tolist()
        self._highest = self._table[:, self._levels - 1].max(axis=1).tolist()
        self._minima: dict[tuple[Rates, Factors], Levels] = {}
        self._needs: dict[tuple[Rates, Factors], Rates] = {}

    def ability(self, unit: str) -> Array:
        """Return PA(1..p_max) of an operator before any drift, rows per second."""
        abilities: Array = self._table[self.units.index(unit)]
        return abilities.copy()

    def capacities(self, levels: Levels, factors: Factors) -> tuple[float, ...]:
        """Return each operator's capacity, rows per second."""
        return tuple([row[p - 1] * f for row, p, f in zip(self._rows, levels, factors, strict=True)])

    def emitted(self, levels: Levels, rates: Rates, factors: Factors) -> Rates:
        """Return each source's sustainable output, rows per second."""
        none_wait = (False,) * len(rates)
        return passing(self.gains, self.capacities(levels, factors), rates, none_wait, self.shares(rates))[0]

    def needs(self, rates: Rates, factors: Factors) -> Rates:
        """Return each operator's needed rate for all arrivals, or for the part of them that the best p lets pass."""
        key = rates, factors
        if key not in self._needs:
            self._needs[key] = self._loads(self._reachable(rates, factors))
        return self._needs[key]

    def minimum(self, rates: Rates, factors: Factors) -> Levels:
        """Return the least p of each operator with PA(p) >= need / target utilisation, or else the knee of its PA."""
        key = rates, factors
        if key not in self._minima:
            self._minima[key] = self._least(self.needs(rates, factors), factors)
        return self._minima[key]

    def adequate(self, levels: Levels, rates: Rates, factors: Factors) -> bool:
        """Return whether every operator can process its needed rate."""
        needs = self.needs(rates, factors)
        return all(
            [c >= need * (1 - TOLERANCE) for c, need in zip(self.capacities(levels, factors), needs, strict=True)]
        )

    def sustains(self, levels: Levels, rates: Rates, factors: Factors) -> bool:
        """Return whether all arrivals pass."""
        loads = self._loads(rates)
        return all(
            [c >= load * (1 - TOLERANCE) for c, load in zip(self.capacities(levels, factors), loads, strict=True)]
        )

    def _loads(self, emitted: Rates) -> tuple[float, ...]:
        return tuple([sum([g * e for g, e in zip(gain, emitted, strict=True)]) for gain in self.gains])

    def _reachable(self, rates: Rates, factors: Factors) -> Rates:
        loads = self._loads(rates)
        most = [h * f for h, f in zip(self._highest, factors, strict=True)]
        if all(load <= m for load, m in zip(loads, most, strict=True)):
            return rates
        caps = [m if load <= m else KNEE * m for load, m in zip(loads, most, strict=True)]
        return passing(self.gains, caps, rates, (False,) * len(rates), self.shares(rates))[0]

    def _least(self, needs: Rates, factors: Factors) -> Levels:
        found = []
        for abilities, need, factor in zip(self._table, needs, factors, strict=True):
            usable = abilities[self._levels - 1] * factor
            wanted = min(need / self._target, max(need, KNEE * float(usable.max())))
            enough = usable >= wanted * (1 - TOLERANCE)
            found.append(int(self._levels[np.argmax(enough) if enough.any() else np.argmax(usable)]))
        return tuple(found)

    def shares(self, rates: Rates) -> Rates:
        """Return the sources' shares of a full operator: by arrival rate, or by unit rate if almost nothing arrives."""
        return tuple([max(r, LEAST_SHARE * w) for r, w in zip(rates, self.weights, strict=True)])
