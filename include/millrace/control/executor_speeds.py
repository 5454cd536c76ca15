"""Find executors that are faster or slower than the others, from partitions that ran on several hosts.

Symbols, for a partition k and a host h on which several of its batches were sampled:
    t_kh   median time of its task, seconds
    x_kh   median number of rows, plus one

log t_kh = a_k + b log x_kh - log s_h, by least squares with one a per partition. Partitions differ by what their keys
cost, so only the times of the same partition on different hosts show the speeds s. ([ALBIC], Section 3, takes the
capacities of nodes as known.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from millrace.lake.pace import at_least
from millrace.lake.partition_runs import partition_runs
from millrace.lake.store import Lake
from millrace.model.placement import Speeds
from millrace.model.telemetry import PartitionRun

SPAN = timedelta(hours=1)
"""How far back to look for partitions that have moved between hosts."""
SPAN_BATCHES = 12
"""Fewest batches that this must cover."""
LEAST_BATCHES = 3
"""Fewest batches of a partition on a host that count; the first after a move loads its state."""
SURE = 2.0
"""Standard errors by which a host must differ from the others."""
NOTABLE = 1.2
"""Smallest ratio between a speed and the mean one, either way."""

Cells = Sequence[tuple[tuple[str, tuple[int, ...], int], str, float, float]]
"""Partition, host, log of the median time, log of the median rows."""


def executor_speeds(lake: Lake, runs: Sequence[PartitionRun], now: datetime, trigger_s: float = 0.0) -> Speeds:
    """Return the executors that surely differ from the others; none if all are on one host.

    Args:
        lake: The telemetry.
        runs: Newest sampled partitions of one driver, which show the hosts of its executors.
        now: The present (UTC).
        trigger_s: Interval of the query's trigger, seconds.
    """
    hosts = {run.executor_number: run.host for run in runs if run.executor_number is not None and run.host is not None}
    if len(set(hosts.values())) < 2:
        return Speeds()
    driver = (runs[-1].app, runs[-1].generation)
    every = partition_runs(lake, runs[-1].pipeline, now - at_least(SPAN, SPAN_BATCHES, trigger_s))
    speeds = host_speeds([run for run in every if (run.app, run.generation) == driver])
    known = sorted((executor, speeds[host]) for executor, host in hosts.items() if host in speeds)
    return Speeds(tuple(executor for executor, _ in known), tuple(speed for _, speed in known))


def host_speeds(runs: Sequence[PartitionRun]) -> Mapping[str, float]:
    """Return s of each host that surely differs from the mean."""
    cells = _cells(runs)
    hosts = sorted({host for _, host, _, _ in cells})
    if len(hosts) < 2:
        return {}
    group = np.unique([str(key) for key, _, _, _ in cells], return_inverse=True)[1]
    on = np.array([[host == name for name in hosts] for _, host, _, _ in cells], dtype=float)
    log_t, log_x = (np.array([cell[i] for cell in cells]) for i in (2, 3))
    # the first host is the reference; without its column, the others are independent if partitions connect them
    columns = _within(np.column_stack([on[:, 1:], log_x]), group)
    if not np.abs(columns[:, -1]).max() > 0:
        columns = columns[:, :-1]  # rows never changed
    left = len(cells) - len(np.unique(group)) - columns.shape[1]
    if left < 1 or np.linalg.matrix_rank(columns) < columns.shape[1]:
        return {}
    inverse = np.linalg.inv(columns.T @ columns)
    found = inverse @ columns.T @ _within(log_t[:, None], group)[:, 0]
    residual = _within(log_t[:, None], group)[:, 0] - columns @ found
    covariance = inverse * float(residual @ residual) / left
    n = len(hosts)
    to_mean = np.vstack([np.zeros(n - 1), np.eye(n - 1)]) - 1.0 / n  # log t of each host less the mean host's
    slowness = to_mean @ found[: n - 1]
    error = np.sqrt(np.einsum("ij,jk,ik->i", to_mean, covariance[: n - 1, : n - 1], to_mean))
    sure = (np.abs(slowness) > SURE * error) & (np.abs(slowness) > math.log(NOTABLE))
    return {host: round(math.exp(-slowness[i]), 3) for i, host in enumerate(hosts) if sure[i]}


def _cells(runs: Sequence[PartitionRun]) -> Cells:
    sampled: dict[tuple[tuple[str, tuple[int, ...], int], str], list[PartitionRun]] = {}
    for run in runs:
        if run.host is not None and run.run_s > 0:
            sampled.setdefault(((run.query, run.operators, run.partition), run.host), []).append(run)
    cells = []
    for (key, host), of_it in sorted(sampled.items()):
        if len(of_it) >= LEAST_BATCHES:
            run_s, rows = np.median([(run.run_s, run.rows_in) for run in of_it], axis=0)
            cells.append((key, host, math.log(run_s), math.log1p(rows)))
    return cells


def _within(values: NDArray[np.float64], group: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return values less the mean of their group, column by column."""
    count = np.bincount(group)
    means = np.column_stack([np.bincount(group, column) / count for column in values.T])
    return np.asarray(values - means[group])
