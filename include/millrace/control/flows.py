"""Find which state partition feeds which, and what it costs if the two are on different executors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np

from millrace.lake.pace import at_least
from millrace.lake.partition_runs import partition_flows
from millrace.lake.store import Lake
from millrace.model.placement import Flows
from millrace.model.telemetry import PartitionFlow, PartitionRun

SPAN = timedelta(minutes=5)
"""How far back to look for flows; drivers measure them once a minute."""
SPAN_BATCHES = 5
"""Fewest batches that the span must cover."""
NOTABLE = 3.0
"""Two groups are a pair if one brings at least this many even shares of the other's input."""
SURE = 2.0
"""Standard errors that the cost of a remote byte must exceed."""
MB = 1e6

Groups = Mapping[tuple[str, int], Sequence[PartitionRun]]
"""The sampled batches of each key group, by operators and partition."""


def flows(lake: Lake, pipeline: str, groups: Groups, now: datetime, trigger_s: float = 0.0) -> Flows:
    """Return the pairs of key groups.

    Args:
        lake: The telemetry.
        pipeline: The pipeline.
        groups: Sampled batches of a driver's key groups, in the order of their numbers; at least one.
        now: The present (UTC).
        trigger_s: Interval of the query's trigger, seconds.
    """
    if len({operators for operators, _ in groups}) < 2:
        return Flows()  # flows are between stages: no need to read the table
    run = next(iter(groups.values()))[0]
    every = partition_flows(lake, pipeline, now - at_least(SPAN, SPAN_BATCHES, trigger_s))
    measured = [f for f in every if (f.app, f.generation) == (run.app, run.generation)]
    newest: dict[tuple[str, int, int], int] = {}
    for flow in measured:
        stages = (flow.query, flow.from_operator, flow.to_operator)
        newest[stages] = max(newest.get(stages, -1), flow.batch_id)
    current = [f for f in measured if f.batch_id == newest[f.query, f.from_operator, f.to_operator]]
    pairs = _pairs(current, groups)
    producer, consumer, size = (tuple(column) for column in zip(*pairs, strict=True)) if pairs else ((), (), ())
    return Flows(producer, consumer, size, remote_s_per_mb(list(groups.values())) if pairs else None)


def _pairs(measured: Sequence[PartitionFlow], groups: Groups) -> list[tuple[int, int, int]]:
    """Return producer, consumer and bytes of each pair."""
    index = {
        (of_it[0].query, of_it[0].operator, partition): i for i, ((_, partition), of_it) in enumerate(groups.items())
    }
    into: dict[tuple[str, int, int, int], list[PartitionFlow]] = {}
    for flow in measured:
        into.setdefault((flow.query, flow.from_operator, flow.to_operator, flow.to_partition), []).append(flow)
    pairs = []
    for (query, sender, receiver, partition), of_it in into.items():
        senders = sum(key[:2] == (query, sender) for key in index)
        notable = NOTABLE * sum(f.bytes for f in of_it) / max(senders, 1)
        ends = [(index.get((query, sender, f.from_partition)), index.get((query, receiver, partition))) for f in of_it]
        pairs += [
            (a, b, f.bytes)
            for (a, b), f in zip(ends, of_it, strict=True)
            if a is not None and b is not None and f.bytes >= notable
        ]
    return sorted(pairs)


def remote_s_per_mb(groups: Sequence[Sequence[PartitionRun]]) -> float | None:
    """Return how much longer a task takes per MB that comes from another executor, seconds.

    Least squares over the tasks of each stage, run = a + b rows + c remote bytes; the mean of c is weighted by its
    certainty.

    Args:
        groups: Sampled batches of each key group.

    Returns:
        The cost; None if no input came from other executors, or the cost does not exceed its error.
    """
    stages: dict[str, list[PartitionRun]] = {}
    for runs in groups:
        stages.setdefault(f"{runs[0].query}/{runs[0].operator}", []).extend(runs)
    costs = [cost for runs in stages.values() if (cost := _remote_cost(runs)) is not None]
    if not costs:
        return None
    weights = [1 / error**2 for _, error in costs]
    mean = sum(weight * cost for weight, (cost, _) in zip(weights, costs, strict=True)) / sum(weights)
    return round(mean, 6) if mean > SURE / math.sqrt(sum(weights)) else None


def _remote_cost(runs: Sequence[PartitionRun]) -> tuple[float, float] | None:
    """Return c and its standard error, seconds per MB."""
    remote = np.array([run.remote_bytes for run in runs]) / MB
    rows = np.array([run.rows_in for run in runs], dtype=float)
    columns = np.column_stack([np.ones(len(runs)), rows, remote])
    scale = np.abs(columns).max(axis=0)
    if not (scale > 0).all() or len(runs) <= columns.shape[1] or np.linalg.matrix_rank(columns / scale) < 3:
        return None
    seconds = np.array([run.run_s for run in runs])
    inverse = np.linalg.inv((columns / scale).T @ (columns / scale))
    found = inverse @ (columns / scale).T @ seconds
    left = seconds - (columns / scale) @ found
    variance = float(left @ left) / (len(runs) - 3)
    error = float(np.sqrt(variance * inverse[2, 2])) / scale[2]
    return (float(found[2]) / scale[2], error) if error > 0 else None
