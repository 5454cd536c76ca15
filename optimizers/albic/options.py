"""Options of albic in a pipeline's spec: on what nodes key groups would sit, and what a plan may cost."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from optimizers.api import FromList, Options

Resource = Literal["rows_per_s", "bytes_per_s", "cpu_ratio", "state_bytes"]
RESOURCES: tuple[Resource, ...] = get_args(Resource)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=True)]


class PlacementOptions(Options):
    """How key groups are placed.

    Attributes:
        workers: Capacity of each node, 1 for an ordinary one, each > 0.
        method: ``joint`` places for collocation and balance at once, ``albic`` is the paper's, ``balancer`` balances.
        budget: What the moves of one plan may cost, >= 0: their number, or MB of state. Infinite for no limit.
        cost: What a move costs: ``count`` one each, ``state`` the size of the group's state in MB.
        exchange_ratio: What a row costs more where it comes from another node or goes to one, as a share of what
            processing it costs, >= 0. Measure it on your own cluster: it is what collocation saves.
        limits: What an ordinary node has of each resource, each > 0. The resource that is used most is balanced, the
            others are kept below their limits. Where none is given rows are balanced, and the mean of all nodes is
            taken for half of what one can do.
        seed: Same telemetry and seed, same plan; >= 0.
    """

    section: ClassVar[str] = "placement.options"

    workers: Annotated[tuple[Positive, ...], FromList] = Field(
        (1.0, 1.0, 1.0, 1.0), min_length=1, description="a list of capacities, one for each node"
    )
    method: Literal["joint", "albic", "balancer"] = "joint"
    budget: float = Field(8.0, ge=0, allow_inf_nan=True)
    cost: Literal["count", "state"] = "count"
    exchange_ratio: float = Field(0.2, ge=0)
    limits: dict[Resource, Positive] = Field(default_factory=dict, description="limits by name of the resource")
    seed: int = Field(0, ge=0)
