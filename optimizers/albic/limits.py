"""Limits of an executor other than the balanced load: state, memory, and time of its cores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from millrace.model.errors import MillraceError
from millrace.model.placement import PartitionLoads, PlacementPlan
from millrace.optimizers.albic.options import PlacementOptions
from millrace.optimizers.albic.problem import Caps
from millrace.optimizers.arrays import Floats, Ints

MB = 1e6
LEAST_MB = 1e-6
"""Stands for no state, and for no room."""
ROUNDING = 1e-9


def limits(groups: PartitionLoads, speed: Floats, cores: int, options: PlacementOptions) -> Caps | None:
    """Return the limits that options set; None if they set none.

    Args:
        groups: The measured groups.
        speed: Speed of each executor, shape (N,), > 0.
        cores: Cores per executor, >= 1.
        options: The options.

    Raises:
        MillraceError: If a limited resource was not measured.
    """
    rows: list[tuple[Floats, Floats]] = []
    if options.max_state_mb is not None:
        rows.append((megabytes("state_bytes", groups.state_bytes), np.full(len(speed), options.max_state_mb)))
    if options.max_memory_mb is not None:
        memory = groups.memory_bytes or (None,) * len(groups.busy_s)
        rows.append((megabytes("memory_bytes", memory), np.full(len(speed), options.max_memory_mb)))
    if options.max_busy_ratio is not None:
        batch_s = groups.batch_s or groups.stateful_batch_s(cores)
        if batch_s > 0:
            rows.append((np.array(groups.busy_s, dtype=float), options.max_busy_ratio * cores * batch_s * speed))
    return Caps(np.array([use for use, _ in rows]), np.array([limit for _, limit in rows])) if rows else None


def left_by_others(caps: Caps, stage: Ints, node: Ints) -> Caps:
    """Return the limits of one stage: what the groups of the other stages leave.

    Args:
        caps: The limits of all groups.
        stage: Groups of the stage, by index.
        node: Executor of every group by index, shape (K,); -1 without one.
    """
    others = node.copy()
    others[stage] = -1
    return Caps(caps.load[:, stage], np.maximum(caps.limit - caps.used(others), LEAST_MB))


def fits(groups: PartitionLoads, plan: PlacementPlan, options: PlacementOptions) -> bool:
    """Return whether no executor holds more than the limits allow under a plan.

    Args:
        groups: The measured groups.
        plan: A plan for them.
        options: The options.
    """
    speed = np.array([plan.speeds.of(executor) for executor in plan.executors])
    caps = limits(groups, speed, plan.cores, options)
    return caps is None or bool((caps.used(np.array(plan.after)) <= caps.limit * (1 + ROUNDING)).all())


def megabytes(name: str, sizes: Sequence[int | None]) -> Floats:
    """Return measured sizes in MB.

    Args:
        name: Name of the figure, for the error.
        sizes: Bytes.

    Raises:
        MillraceError: If one was not measured.
    """
    if any(size is None for size in sizes):
        options = "cost: state, max_state_mb and max_memory_mb"
        remedy = f"Leave {options} out of placement.options, or wait for the next measurement (once per minute)."
        raise MillraceError(f"partition_loads.{name}", None, "a size for every partition", remedy)
    return np.array(sizes, dtype=float) / MB
