"""The compared methods, by their names in the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.albic.rivals import flux
from benchmarks.simulation.placement import PlacementPlant
from millrace.optimizers.albic.balancer import balance
from millrace.optimizers.albic.first_placement import place_first
from millrace.optimizers.albic.joint_search import place as joint
from millrace.optimizers.albic.paper.albic import place as albic
from millrace.optimizers.albic.paper.options import CORRECTED, LITERAL
from millrace.optimizers.albic.problem import Flows, Plan, Problem

Method = Callable[[Problem, int], Plan]
"""Maps a problem and a seed to a plan."""

METHODS: Mapping[str, Method] = {
    "joint": lambda problem, seed: joint(problem, seed=seed),
    "albic": lambda problem, seed: albic(problem, seed=seed, options=CORRECTED),
    # it stops moving once its heaviest pair costs more than the budget
    "albic_literal": lambda problem, seed: albic(problem, seed=seed, options=LITERAL),
    "cola": lambda problem, seed: place_first(problem, seed=seed),
    "balancer": lambda problem, seed: balance(problem, seed=seed),
    "flux": lambda problem, seed: flux.balance(problem, seed=seed),
}


def problem_of(plant: PlacementPlant, budget: float) -> Problem:
    """Return what a method knows of a simulated cluster in its present period.

    Args:
        plant: The cluster.
        budget: Total cost of the moves of a period, in the plant's unit of state.
    """
    cluster, traffic = plant.cluster, plant.traffic
    return Problem(
        load=traffic.load,
        node=plant.node,
        capacity=cluster.capacity,
        removed=cluster.removed,
        cost=cluster.state,
        budget=budget,
        operator=cluster.operator,
        flows=Flows(traffic.producer, traffic.consumer, traffic.rate, traffic.saved),
    )
