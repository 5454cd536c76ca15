"""Signals and Deployments for tests of optimizers: a healthy app by default.

An app is one operator (``app_signals``), or a DAG of operators with a p each (``dag_signals``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from millrace.model.decision import Proposal
from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.objective import Bounds, Objective
from millrace.model.signals import AppSignals, Capacity, Edge, Observation, OperatorSignals, Signals

APP = "delays"
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


def deployment(slots: int, parallelism: Mapping[str, int] | None = None, *, running: bool = True) -> Deployment:
    app = AppDeployment(
        script="delays.py",
        args=(),
        slots=slots,
        memory_mb=1024,
        max_parallelism=8,
        parallelism=parallelism or {},
    )
    return Deployment(pipeline=APP, version=1, running=running, apps={APP: app})


def capacity(parallelism: int, ability: float, fixed_s: float = 1.0, error: float = 0.0) -> Capacity:
    return Capacity(parallelism, fixed_s, ability, error, 5)


def observed(
    levels: Mapping[int, float | Sequence[float]], time: datetime = NOON, operator: str = APP
) -> tuple[Observation, ...]:
    """Return one observation per value, the oldest first."""
    values = {p: v if isinstance(v, Sequence) else (v,) for p, v in levels.items()}
    return tuple(
        Observation(operator, p, ability, 0.0, 5, time - timedelta(seconds=10 * (len(of_level) - i)))
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
        apps=(app,),
        observations=history,
        objective=objective or Objective(),
        bounds=bounds or Bounds(1, 8),
        settling=settling,
    )


def operator(name: str, p: int | None, rate: float | None, ability: float | None, **changes: Any) -> OperatorSignals:
    """Return an operator that emits one row per row that it takes in and keeps nothing waiting."""
    busy = None if rate is None or not ability else min(1.0, rate / ability)
    values: dict[str, Any] = {
        "operator": name,
        "name": name,
        "parallelism": p,
        "rows_in_per_s": rate,
        "useful_s_per_row": None,
        "throughput": ability,
        "throughput_error": 0.0,
        "rows_out_per_s": rate,
        "output_throughput": ability,
        "busy_ratio": busy,
        "backpressured_ratio": 0.0,
    }
    return OperatorSignals(**(values | changes))


def source(name: str, arrival: float | None, emitted: float | None = None, **changes: Any) -> OperatorSignals:
    """Return a source that passes on all that arrives, or the given rate."""
    rate = arrival if emitted is None else emitted
    values = {"output_throughput": arrival, "arrival_rows_per_s": arrival, "backlog_rows": 0, "busy_ratio": None}
    return operator(name, None, rate, None, **(values | changes))


def edges(pairs: str, rates: Mapping[str, float | None]) -> tuple[Edge, ...]:
    """Return edges from ``"lines>split split>count"``; each edge carries its producer's rate."""
    named = [tuple(pair.split(">")) for pair in pairs.split()]
    return tuple(Edge(producer, consumer, rates.get(producer)) for producer, consumer in named)


def dag_signals(
    operators: Sequence[OperatorSignals], links: Sequence[Edge], history: tuple[Observation, ...] = (), **changes: Any
) -> Signals:
    """Return signals of an app with these operators, with changed fields of the signals or of the app."""
    of_signals = {k: changes.pop(k) for k in ("bounds", "objective", "settling", "until") if k in changes}
    arrivals = [o.arrival_rows_per_s for o in operators if o.arrival_rows_per_s is not None]
    levels = [o.parallelism or 1 for o in operators if o.arrival_rows_per_s is None]
    app = app_signals(
        changes.pop("slots", sum(levels)), sum(arrivals) if arrivals else None, None, parallelism=None, **changes
    )
    return signals(replace(app, operators=tuple(operators), edges=tuple(links)), history, **of_signals)


def with_operator(seen: Signals, name: str, **figures: Any) -> Signals:
    """Return signals with figures of one operator changed."""
    app = seen.apps[0]
    operators = tuple(replace(o, **figures) if o.operator == name else o for o in app.operators)
    return replace(seen, apps=(replace(app, operators=operators),))


def target(proposal: Proposal, slots: int) -> int:
    """Return the slots that a proposal wants for the only app."""
    (value,) = [change.value for change in proposal.changes] or [slots]
    return int(value)
