"""Options of albic in a pipeline's spec: on what nodes key groups would sit, and what a plan may cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from include.model.errors import MillraceError
from optimizers.ranges import NOT_NEGATIVE, Allowed, Range, check, check_fields, key, parse_fields

METHODS = ("joint", "albic", "balancer")
RESOURCES = ("rows_per_s", "bytes_per_s", "cpu_ratio", "state_bytes")
COUNT, STATE = "count", "state"


@dataclass(frozen=True)
class PlacementOptions:
    """How key groups are placed.

    Attributes:
        workers: Capacity of each node, 1 for an ordinary one, each > 0.
        method: ``joint`` places for collocation and balance at once, ``albic`` is the paper's, ``balancer`` balances.
        budget: What the moves of one plan may cost, >= 0: their number, or MB of state. Infinite for no limit.
        cost: What a move costs: ``count`` one each, ``state`` the size of the group's state in MB.
        exchange_ratio: What a row costs more where it comes from another node or goes to one, as a share of what
            processing it costs, >= 0. Measure it on your own cluster: it is what collocation saves.
        limits: What an ordinary node has of each resource, by name (:data:`RESOURCES`). The one that is used most is
            balanced, the others are kept below their limits. Where none is given rows are balanced, and the mean of all
            nodes is taken for half of what one can do.
        seed: Same telemetry and seed, same plan.
    """

    workers: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    method: str = "joint"
    budget: float = 8.0
    cost: str = COUNT
    exchange_ratio: float = 0.2
    limits: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        for at, capacity in enumerate(self.workers):
            check(f"workers[{at}]", capacity, MORE, SECTION)
        if not self.workers:
            raise _wrong("workers", self.workers, "one capacity a node", "Name a node.")
        check_fields(self, ALLOWED, SECTION)
        for name, limit in self.limits.items():
            if name not in RESOURCES:
                raise _wrong(f"limits.{name}", limit, ", ".join(RESOURCES), "Name a measured resource.")
            check(f"limits.{name}", limit, MORE, SECTION)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise _wrong("seed", self.seed, "a whole number >= 0", "Give a seed.")


SECTION = "placement.options"
MORE = Range(0, math.inf, low_open=True)
ALLOWED: Mapping[str, Allowed] = {
    "method": METHODS,
    "cost": (COUNT, STATE),
    "budget": Range(0, math.inf),
    "exchange_ratio": NOT_NEGATIVE,
}


def parse(options: Mapping[str, Any]) -> PlacementOptions:
    """Return checked options.

    Raises:
        MillraceError: If an option is unknown, or a value of a wrong type or out of range.
    """
    given = dict(options)
    if isinstance(given.get("workers"), Sequence) and not isinstance(given["workers"], str):
        given["workers"] = tuple(given["workers"])
    elif "workers" in given:
        raise _wrong("workers", given["workers"], "a list of capacities", "Give one capacity a node.")
    if not isinstance(given.get("limits", {}), Mapping):
        raise _wrong("limits", given["limits"], "resource: limit", "Name resources with what a node has of them.")
    return parse_fields(PlacementOptions, given, section=SECTION)


def _wrong(name: str, value: object, allowed: str, remedy: str) -> MillraceError:
    return MillraceError(key(name, SECTION), value, allowed, remedy)
