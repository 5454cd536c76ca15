"""The compared methods, by their names in the results.

Those that a pipeline's spec can name are called as they are on a pipeline: by :func:`plan_placement`, on a cluster
whose operators run one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from benchmarks.albic.rivals import cola, flux
from benchmarks.simulation.placement import PlacementPlant
from millrace.optimizers.albic.cluster import Cluster
from millrace.optimizers.albic.paper.albic import place as published
from millrace.optimizers.albic.paper.options import LITERAL
from millrace.optimizers.albic.planning import plan_placement, whole_problem
from millrace.optimizers.albic.problem import Flows, Plan, Problem
from millrace.optimizers.arrays import Ints

Method = Callable[[Cluster, int], Ints]
"""Maps a cluster and a seed to the node of each group."""
NONE_FIXED: Ints = np.zeros(0, dtype=np.intp)


def _live(method: str, cluster: Cluster, seed: int) -> Ints:
    return plan_placement(cluster, method, NONE_FIXED, seed).node


def _on_whole(plan: Callable[[Problem, int], Plan], cluster: Cluster, seed: int) -> Ints:
    return plan(problem_of(cluster), seed).node


def problem_of(cluster: Cluster) -> Problem:
    """Return the problem of all operators at once."""
    return whole_problem(cluster, np.ones(cluster.problem.groups, dtype=bool))


METHODS: Mapping[str, Method] = {
    **{name: partial(_live, name) for name in ("joint", "albic", "balancer")},
    # it stops moving once its heaviest pair costs more than the budget
    "albic_literal": partial(_on_whole, lambda problem, seed: published(problem, seed=seed, options=LITERAL)),
    "cola": partial(_on_whole, lambda problem, seed: cola.place(problem, seed=seed)),
    "flux": partial(_on_whole, lambda problem, seed: flux.balance(problem)),
}


def cluster_of(plant: PlacementPlant, budget: float) -> Cluster:
    """Return what a method knows of a simulated cluster in its present period; a point counts as a second.

    Args:
        plant: The cluster.
        budget: Total cost of the moves of a period, in the plant's unit of state.
    """
    cluster, traffic = plant.cluster, plant.traffic
    problem = Problem(
        load=traffic.load,
        node=plant.node,
        capacity=cluster.capacity,
        removed=cluster.removed,
        cost=cluster.state,
        budget=budget,
        operator=cluster.operator,
        flows=Flows(traffic.producer, traffic.consumer, traffic.rate, traffic.saved),
    )
    return Cluster(problem, tuple(range(len(cluster.capacity))), 1)
