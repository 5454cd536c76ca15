"""Options of albic in a pipeline's spec: how state partitions are placed, and how much a plan may cost."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from millrace.optimizers.api import Options


class PlacementOptions(Options):
    """How state partitions are placed.

    Attributes:
        framework: ``integrated`` plans placement before the tuner decides on slots, so none are added if moving
            partitions is enough, and none are freed if the rest could not be balanced; ``non_integrated`` places only
            after the tuner has decided.
        method: ``joint`` collocates and balances, ``albic`` is the published algorithm, ``balancer`` only balances.
        budget: Limit of the cost of one plan's moves while the executors stay, >= 0: their number, or MB of state.
            Infinite for no limit. It does not limit the moves that added or removed executors need.
        cost: Cost of a move: ``count`` counts one each, ``state`` the state that it loads, in MB.
        drain_mb: State that executors which are to go may hand over at once, MB, >= 0. With more, or if the size is
            unknown, they are emptied over several evaluations, each within the budget, and slots are lowered in the
            last one.
        worth: Least share of a whole batch's time that a plan has to save, 0..1: after each change, the tuner waits for
            telemetry to settle.
        rest_s: Time that a moved partition stays, seconds, >= 0: Spark unloads its former copy once per minute.
        remote_s_per_mb: Extra cost of a MB from another executor, seconds, >= 0; None for the measured cost. Set it if
            such bytes cost money, for example between zones of a cloud.
        max_state_mb: State that an executor may hold, MB, > 0; None for any.
        max_memory_mb: Memory that state may take on an executor, MB, > 0; None for any.
        max_busy_ratio: Share of its cores' time that state may keep an executor busy in a batch, 0..1, > 0; None for
            all.
        polish: Let CP-SAT shorten a plan before it is carried out, or prove it shortest, if groups and executors are
            few enough for that to take a second. Plans of ``albic`` stay as they are.
        seed: The same telemetry and seed give the same plan; >= 0.
    """

    section: ClassVar[str] = "placement.options"

    framework: Literal["integrated", "non_integrated"] = "integrated"
    method: Literal["joint", "albic", "balancer"] = "joint"
    budget: float = Field(8.0, ge=0, allow_inf_nan=True)
    cost: Literal["count", "state"] = "count"
    drain_mb: float = Field(256.0, ge=0, allow_inf_nan=True)
    worth: float = Field(0.05, ge=0, le=1)
    rest_s: float = Field(60.0, ge=0)
    remote_s_per_mb: float | None = Field(None, ge=0)
    max_state_mb: float | None = Field(None, gt=0)
    max_memory_mb: float | None = Field(None, gt=0)
    max_busy_ratio: float | None = Field(None, gt=0, le=1)
    polish: bool = True
    seed: int = Field(0, ge=0)
