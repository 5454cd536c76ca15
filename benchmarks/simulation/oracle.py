"""The reactive oracle: an optimizer that knows the true processing abilities and the present rate, but no future.

It always uses the least sufficient resources, so core-seconds are compared with it. It still pays for every change of
the rate with an evaluation's delay and a downtime.
"""

from __future__ import annotations

from benchmarks.simulation.plant import SimulatedPlant
from benchmarks.simulation.scenario import MICRO_BATCH
from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import Change, Deployment
from millrace.model.signals import Signals


class Oracle:
    """Sets every unit to the smallest p with true PA(p) >= needed rate / target utilisation, in one step.

    Args:
        plant: The plant that it drives.
    """

    def __init__(self, plant: SimulatedPlant) -> None:
        self._plant = plant

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Propose the least sufficient levels for the rate of the period; no change if they are deployed."""
        plant = self._plant
        scenario = plant.scenario
        wanted = plant.truth.minimum(*plant.present)
        name = scenario.shape.name
        whole = scenario.execution == MICRO_BATCH
        changes = tuple(
            Change(name, scenario.sizes_by, p, target, None if whole else unit)
            for unit, p, target in zip(scenario.units, plant.wanted, wanted, strict=True)
            if p != target
        )
        if not changes:
            return Proposal("oracle", (), "sufficient", "What is deployed is the least that suffices."), memory
        sentence = f"The least that suffices is {sum(wanted)} instead of {sum(plant.wanted)} slots."
        return Proposal("oracle", changes, "least_sufficient", sentence), memory
