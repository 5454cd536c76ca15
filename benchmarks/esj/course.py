"""Run a join's policy on a simulated join, with the live loop's code but without Spark."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulation.join import JoinCluster, JoinPlant
from millrace.model.decision import Memory
from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.join import JoinSettings, JoinSignals
from millrace.model.signals import AppSignals, Signals
from millrace.optimizers.esj.optimizer import Esj
from millrace.optimizers.esj.options import JoinPolicy
from millrace.optimizers.esj.workers import start_workers

Ints = NDArray[np.int64]

APP, SLOTS = "join", 64
IDLE = AppSignals(APP, SLOTS, SLOTS, False, None, None, None, None, 1, 1, None, None, None, None)


def follow(arrivals: Ints, policy: JoinPolicy, cluster: JoinCluster | None = None) -> JoinPlant:
    """Let a policy control a join until its load ends.

    Args:
        arrivals: Tuples of each stream in each second, shape (T, 2).
        policy: The policy.
        cluster: The constant parameters.

    Returns:
        The plant after its last period.
    """
    plant = JoinPlant(arrivals, JoinSettings(workers=start_workers(policy), block=1), cluster)
    optimizer = Esj(policy)
    memory: Memory = {}
    while not plant.over:
        seen = plant.advance()
        app = AppDeployment("join.py", (), SLOTS, 1024, SLOTS)
        current = Deployment(APP, 1, True, {APP: app}, join=plant.settings)
        told, memory = optimizer.propose(_signals(seen), current, memory)
        after = current.with_changes(told.changes).join
        if after is not None:
            plant.apply(after)
    return plant


def _signals(seen: JoinSignals) -> Signals:
    since = seen.until - timedelta(seconds=seen.period_s)
    return Signals(APP, since, seen.until, 1, 1, (IDLE,), join=seen)
