"""Signals and Deployments for the optimizers' tests: a healthy app unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from include.contracts.deployment import AppDeployment, Deployment
from include.contracts.signals import AppSignals, Bounds, Capacity, Objective, Observation, Signals

APP = "delays"
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


def deployment(slots: int, *, running: bool = True) -> Deployment:
    app = AppDeployment(script="delays.py", args=(), slots=slots, memory_mb=1024, max_parallelism=8)
    return Deployment(pipeline=APP, version=1, running=running, apps={APP: app})


def capacity(parallelism: int, ability: float, fixed_s: float = 1.0, error: float = 0.0) -> Capacity:
    return Capacity(parallelism, fixed_s, ability, error, 5)


def observed(levels: Mapping[int, float | Sequence[float]], time: datetime = NOON) -> tuple[Observation, ...]:
    """One observation a value, the first the oldest."""
    values = {p: v if isinstance(v, Sequence) else (v,) for p, v in levels.items()}
    return tuple(
        Observation(APP, p, ability, 0.0, 5, time - timedelta(seconds=10 * (len(of_level) - i)))
        for p, of_level in values.items()
        for i, ability in enumerate(of_level)
    )


def app_signals(slots: int, arrival: float | None, measured: Capacity | None, **changes: Any) -> AppSignals:
    values: dict[str, Any] = {
        "app": APP,
        "slots": slots,
        "parallelism": slots,
        "source_splits": False,
        "arrival_rows_per_s": arrival,
        "processed_rows_per_s": arrival,
        "backlog_rows": 0,
        "backlog_growth_rows_per_s": 0.0,
        "batches": 5,
        "healthy_batches": 5,
        "busy_ratio": 1.0,
        "backpressured_ratio": 0.0,
        "slot_busy_ratio": 0.5,
        "capacity": measured,
        "restart_lag_rows": 0,
    }
    return AppSignals(**(values | changes))


def signals(
    app: AppSignals,
    history: tuple[Observation, ...] = (),
    bounds: Bounds | None = None,
    objective: Objective | None = None,
    *,
    settling: bool = False,
    until: datetime = NOON,
) -> Signals:
    return Signals(
        pipeline=APP,
        since=until - timedelta(seconds=10),
        until=until,
        telemetry_version=1,
        deployment_version=1,
        level=0,
        apps=(app,),
        observations=history,
        objective=objective or Objective(),
        bounds=bounds or Bounds(1, 8),
        settling=settling,
    )
