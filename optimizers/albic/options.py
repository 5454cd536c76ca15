"""Options of albic in a pipeline's spec: how state partitions are placed, and what a plan may cost."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from millrace.optimizers.api import Options


class PlacementOptions(Options):
    """How state partitions are placed.

    Attributes:
        method: ``joint`` places for collocation and balance at once, ``albic`` is the paper's, ``balancer`` balances.
        budget: What the moves of one plan may cost while the executors stay, >= 0: their number, or MB of state.
            Infinite for no limit. Where executors come or go, what has to move does.
        cost: What a move costs: ``count`` one each, ``state`` what it loads, in MB.
        worth: Least share of a whole batch's time that a plan has to save, 0..1: after each change, the tuner waits for
            telemetry that has settled.
        rest_s: Time that a partition stays where it was moved to, seconds, >= 0: Spark unloads its former copy once a
            minute.
        remote_s_per_mb: What a MB costs a partition more if it comes from another executor, seconds, >= 0; None for
            what is measured. Set it where such bytes cost money, as between zones of a cloud.
        max_state_mb: State that a worker may hold, MB, > 0; None for any.
        max_memory_mb: Memory that state may take on a worker, MB, > 0; None for any.
        max_busy_ratio: Share of its cores' time that state may keep a worker busy in a batch, 0..1, > 0; None for all.
        polish: Have CP-SAT make a plan that is to be carried out shorter, or prove that none is, where groups and
            workers are few enough for that to take a second.
        seed: Same telemetry and seed, same plan; >= 0.
    """

    section: ClassVar[str] = "placement.options"

    method: Literal["joint", "albic", "balancer"] = "joint"
    budget: float = Field(8.0, ge=0, allow_inf_nan=True)
    cost: Literal["count", "state"] = "count"
    worth: float = Field(0.05, ge=0, le=1)
    rest_s: float = Field(60.0, ge=0)
    remote_s_per_mb: float | None = Field(None, ge=0)
    max_state_mb: float | None = Field(None, gt=0)
    max_memory_mb: float | None = Field(None, gt=0)
    max_busy_ratio: float | None = Field(None, gt=0, le=1)
    polish: bool = True
    seed: int = Field(0, ge=0)
