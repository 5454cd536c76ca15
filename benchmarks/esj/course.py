"""A run of a join's policy on a simulated join: the live loop's code, without Spark."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulation.join import JoinCluster, JoinPlant
from include.model.decision import Memory
from include.model.deployment import AppDeployment, Deployment
from include.model.join import JoinSettings, JoinSignals
from include.model.signals import AppSignals, Signals
from optimizers.esj.adviser import Adviser
from optimizers.esj.options import Setting

Ints = NDArray[np.int64]

APP, SLOTS = "join", 64
IDLE = AppSignals(APP, SLOTS, SLOTS, False, None, None, None, None, 1, 1, None, None, None, None)


def follow(arrivals: Ints, setting: Setting, cluster: JoinCluster | None = None) -> JoinPlant:
    """Let a policy set a join until its load ends.

    Args:
        arrivals: Tuples of each stream in each second, shape (T, 2).
        setting: The policy.
        cluster: What does not vary.

    Returns:
        The plant after its last look.
    """
    plant = JoinPlant(arrivals, JoinSettings(workers=setting.start, block=1), cluster)
    policy = Adviser(setting)
    memory: Memory = {}
    while not plant.over:
        seen = plant.advance()
        app = AppDeployment("join.py", (), SLOTS, 1024, SLOTS)
        current = Deployment(APP, 1, True, {APP: app}, join=plant.settings)
        told, memory = policy.propose(_signals(seen), current, memory)
        after = current.with_changes(told.changes).join
        if after is not None:
            plant.apply(after)
    return plant


def _signals(seen: JoinSignals) -> Signals:
    since = seen.until - timedelta(seconds=seen.period_s)
    return Signals(APP, since, seen.until, 1, 1, 1, (IDLE,), join=seen)
