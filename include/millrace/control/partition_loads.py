"""Measure the recent cost of each state partition, from the batches that drivers sampled (``telemetry/partitions``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median

import numpy as np

from millrace.control.executor_speeds import executor_speeds
from millrace.control.flows import flows
from millrace.control.hot_streams import hot_streams
from millrace.lake.partition_runs import partition_runs
from millrace.lake.store import Lake
from millrace.model.deployment import NOWHERE, operator_name
from millrace.model.placement import OTHER_HOT_KEYS, PartitionLoads, Speeds
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import PartitionRun

SPAN_PERIODS = 6
"""Periods whose batches are used: other keys may be hot later."""
NEWEST_BATCHES = 10
"""Newest batches of an operator that count; with fewer, a batch that loaded state would weigh too much."""
SIZES = timedelta(minutes=3)
"""Time for which sizes of state and memory are looked for, at least: drivers measure them once per minute."""
LEAST_BATCHES = 3
"""Newest batches that always count."""
LEAST_S = 1e-9
MAD_TO_SIGMA = 1.4826
SKEW = 2.0
"""Hot streams are looked for if a partition takes more than this multiple of the mean time."""


def partition_loads(
    spec: PipelineSpec, lake: Lake, now: datetime, batch_s: float | None = None, trigger_s: float = 0.0
) -> PartitionLoads | None:
    """Return the key groups of the newest driver; None if none was sampled recently.

    Args:
        spec: The pipeline.
        lake: Its telemetry.
        now: The present (UTC).
        batch_s: Duration of a whole batch, seconds; None if unknown.
        trigger_s: Interval of the query's trigger, seconds: batches are at least as far apart.
    """
    since = now - timedelta(seconds=SPAN_PERIODS * max(spec.period_s, trigger_s))
    of_app = [run for run in partition_runs(lake, spec.name, min(since, now - SIZES)) if run.app == spec.app]
    newest = max((run.generation for run in of_app), default=None)
    of_driver = sorted((run for run in of_app if run.generation == newest), key=lambda run: run.batch_id)
    runs = [run for run in of_driver if run.time >= since]
    groups = _of_operators(runs)
    if not groups:
        return None
    speeds = executor_speeds(lake, runs, now, trigger_s)
    loads = _partition_loads(spec.app, groups, of_driver, speeds, batch_s)
    loads = replace(loads, flows=flows(lake, spec.name, groups, now, trigger_s))
    return replace(loads, hot=hot_streams(lake, spec, now)) if _is_skewed(loads) else loads


def _is_skewed(groups: PartitionLoads) -> bool:
    """Return whether a partition takes more than twice the mean time of its stage's partitions."""
    stages: dict[str, list[float]] = {}
    for operator, seconds in zip(groups.operator, groups.busy_s, strict=True):
        stages.setdefault(operator, []).append(seconds)
    return any(max(seconds) > SKEW * sum(seconds) / len(seconds) for seconds in stages.values())


def _of_operators(runs: Sequence[PartitionRun]) -> Mapping[tuple[str, int], list[PartitionRun]]:
    """Return each key group's newest batches that ran on as many executors as the last one, oldest first.

    A partition's time changes if fewer or more executors share a host's processors.

    Args:
        runs: Runs of one driver, oldest first.
    """
    executors: dict[str, dict[int, set[str]]] = {}
    for run in runs:
        executors.setdefault(_name(run), {}).setdefault(run.batch_id, set()).add(run.executor)
    took = _times(runs)
    kept = {
        name: _like_newest(took[name], _on_as_many(batches)[-NEWEST_BATCHES:]) for name, batches in executors.items()
    }
    groups: dict[tuple[str, int], list[PartitionRun]] = {}
    for run in runs:
        if run.batch_id in kept[_name(run)]:
            groups.setdefault(_group(run), []).append(run)
    return dict(sorted(groups.items()))


def _on_as_many(executors: Mapping[int, set[str]]) -> list[int]:
    """Return the batches that ran on as many executors as the last one, oldest first."""
    last = executors[max(executors)]
    return sorted(batch for batch, on in executors.items() if len(on) == len(last))


def _times(runs: Sequence[PartitionRun]) -> Mapping[str, Mapping[int, Mapping[int, float]]]:
    """Return each partition's time, seconds, by operators and batch."""
    took: dict[str, dict[int, dict[int, float]]] = {}
    for run in runs:
        took.setdefault(_name(run), {}).setdefault(run.batch_id, {})[run.partition] = run.run_s
    return took


def _like_newest(took: Mapping[int, Mapping[int, float]], batches: Sequence[int]) -> set[int]:
    """Return the newest batches, and earlier ones in which the same partitions had the most work.

    If other keys became hot, earlier batches would hide that for as long as they count.

    Args:
        took: Time of each partition by batch, seconds.
        batches: Batches to choose from, oldest first.
    """
    numbers = sorted({number for batch in batches for number in took[batch]})
    times = np.array([[took[batch].get(number, 0.0) for number in numbers] for batch in batches])
    shares = times / np.maximum(times.sum(axis=1, keepdims=True), LEAST_S)
    elsewhere = np.abs(shares - np.median(shares[-LEAST_BATCHES:], axis=0)).sum(axis=1) / 2
    newest = len(batches) - LEAST_BATCHES
    return {batch for n, batch in enumerate(batches) if n >= newest or elsewhere[n] <= OTHER_HOT_KEYS}


def _name(run: PartitionRun) -> str:
    return operator_name(run.query, run.operators)


def _group(run: PartitionRun) -> tuple[str, int]:
    return _name(run), run.partition


def _partition_loads(
    app: str,
    groups: Mapping[tuple[str, int], Sequence[PartitionRun]],
    of_driver: Sequence[PartitionRun],
    speeds: Speeds,
    batch_s: float | None,
) -> PartitionLoads:
    """Return what the batches of the groups show; sizes are the driver's newest, as not every batch measures them."""
    runs = [run for of_group in groups.values() for run in of_group]
    counted = [_counted(of_group) for of_group in groups.values()]
    state_bytes = {_group(run): run.state_bytes for run in of_driver if run.state_bytes is not None}
    memory_bytes = {_group(run): run.memory_bytes for run in of_driver if run.memory_bytes is not None}
    busy = [
        [run.run_s * speeds.of(NOWHERE if run.executor_number is None else run.executor_number) for run in of_group]
        for of_group in counted
    ]
    remote, every = sum(run.remote_bytes for run in runs), sum(run.remote_bytes + run.local_bytes for run in runs)
    return PartitionLoads(
        app=app,
        since=min(run.time for run in runs),
        until=max(run.time for run in runs),
        batches=min(len(of_group) for of_group in groups.values()),
        operator=tuple(operator for operator, _ in groups),
        partition=tuple(partition for _, partition in groups),
        executor=tuple(NOWHERE if of[-1].executor_number is None else of[-1].executor_number for of in groups.values()),
        busy_s=tuple(round(median(seconds), 4) for seconds in busy),
        busy_error_s=tuple(round(_error(seconds), 4) for seconds in busy),
        rows=tuple(float(median(run.rows_in for run in of_group)) for of_group in counted),
        state_bytes=tuple(map(state_bytes.get, groups)),
        memory_bytes=tuple(map(memory_bytes.get, groups)),
        remote_ratio=round(remote / every, 4) if every else None,
        batch_s=batch_s,
        speeds=speeds,
    )


def _counted(of_group: Sequence[PartitionRun]) -> Sequence[PartitionRun]:
    """Return the batches of a group that count: of two, the larger one, as the other is often the first and cold."""
    return of_group if len(of_group) >= LEAST_BATCHES else [max(of_group, key=lambda run: run.rows_in)]


def _error(values: Sequence[float]) -> float:
    """Return the standard error of a median, from the median deviation: a batch that loaded state must not widen it."""
    deviation = float(np.median(np.abs(np.array(values) - np.median(values))))
    return float(MAD_TO_SIGMA * deviation / len(values) ** 0.5)
