"""Measured state partitions, and an app that they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import Deployment, ExecutorSize
from millrace.model.placement import PartitionLoads
from millrace.model.signals import Signals
from millrace.optimizers.conformance.builders import APP, NOON, app_signals, deployment, signals
from millrace.optimizers.registry import Role, create

FIRST, SECOND = "flights/0", "flights/1+2"


def groups(
    busy_s: Sequence[float], executor: Sequence[int], second: Sequence[float] = (), **changes: Any
) -> PartitionLoads:
    """Return partitions of one operator, and of a second one on the same executors in turn."""
    n = len(busy_s) + len(second)
    told: dict[str, Any] = {
        "app": APP,
        "since": NOON - timedelta(minutes=1),
        "until": NOON,
        "batches": 10,
        "operator": (FIRST,) * len(busy_s) + (SECOND,) * len(second),
        "partition": (*range(len(busy_s)), *range(len(second))),
        "executor": tuple(executor),
        "busy_s": tuple(map(float, (*busy_s, *second))),
        "busy_error_s": (0.0,) * n,
        "rows": (100.0,) * n,
        "state_bytes": (None,) * n,
    }
    return PartitionLoads(**(told | changes))


def look(measured: PartitionLoads | None, **changes: Any) -> Signals:
    return replace(signals(app_signals(2, 100.0, None)), partition_loads=measured, **changes)


def running(executors: int, placement: Mapping[str, tuple[int, ...]] | None = None, cores: int = 1) -> Deployment:
    """Return a Deployment with this number of executors."""
    current = deployment(executors * cores)
    app = replace(current.apps[APP], executor=ExecutorSize(cores, 1024), placement=placement or {})
    return replace(current, apps={APP: app})


def proposed(
    told: PartitionLoads | None,
    current: Deployment,
    memory: Memory | None = None,
    options: dict[str, Any] | None = None,
) -> tuple[Proposal, Memory]:
    return create("albic", options or {}, Role.PLACEMENT).propose(look(told), current, memory or {})
