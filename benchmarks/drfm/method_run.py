"""A method's run on a workload."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from benchmarks.drfm.methods import Method
from benchmarks.simulation.admission import AdmissionPlant, Outcome, Score, SplitNodes, score
from benchmarks.simulation.admission_workloads import StreamLoad


@dataclass(frozen=True)
class MethodRun:
    """A run.

    Attributes:
        outcomes: By period.
        seconds: Median time per plan on one processor, forecast included.
        optimal: Share of periods whose plan is proven optimal.
    """

    outcomes: tuple[Outcome, ...]
    seconds: float
    optimal: float

    def score(self, since: int = 0) -> Score:
        """Return the score from a period on."""
        return score(self.outcomes[since:])


def run_method(load: StreamLoad, method: Method, cluster: SplitNodes) -> MethodRun:
    """Run a method on a workload.

    Args:
        load: The workload.
        method: The method.
        cluster: The cluster.
    """
    plant = AdmissionPlant(load.streams, load.rates, cluster)
    forecaster = method.rate_forecaster(cluster.capacity, load.metadata)
    state = forecaster.start()
    outcomes, seconds, optimal = [], [], []
    while not plant.over:
        observed = plant.observe()
        begun = time.process_time()
        state = forecaster.observe(state, observed.period - 1, observed.streams, observed.rate)
        plan = method.planner(forecaster.pose(state, method.ahead, observed.node, observed.nodes, observed.latency_s))
        seconds.append(time.process_time() - begun)
        optimal.append(plan.optimal)
        outcomes.append(plant.apply(plan.node))
    return MethodRun(tuple(outcomes), float(np.median(seconds)), float(np.mean(optimal)))
