"""From measured key groups to a placement problem: the bottleneck in points, the other resources as caps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from include.model.errors import MillraceError
from include.model.placement import KeyGroups
from optimizers.albic.contraction import total
from optimizers.albic.options import RESOURCES, PlacementOptions, Resource
from optimizers.albic.problem import UNPLACED, Caps, Floats, Flows, Problem

HALF = 50.0
"""Points of an average node where nobody said what a node can do."""
FULL = 100.0
MB = 1e6


@dataclass(frozen=True)
class MeasuredProblem:
    """A placement problem and the resource that it balances.

    Attributes:
        problem: The problem; its groups are those of the telemetry, in their order.
        resource: The bottleneck, whose load is balanced.
    """

    problem: Problem
    resource: str


def measured_problem(groups: KeyGroups, placed: Mapping[str, int], options: PlacementOptions) -> MeasuredProblem:
    """Return the placement problem of measured key groups.

    The bottleneck is the resource of which all groups together use the greatest share of what all nodes have
    ([ALBIC], Section 3).

    Args:
        groups: What was measured.
        placed: Node index by group key, see :func:`group_keys`; groups that are missing have none.
        options: Nodes, limits and prices.

    Raises:
        MillraceError: If the figures make no problem, or a resource with a limit was not measured.
    """
    capacity = np.array(options.workers, dtype=float)
    measured: Iterable[Resource] = options.limits or ("rows_per_s",)
    use = {name: _column(groups, name) for name in measured}
    share = {name: use[name].sum() / options.limits[name] if options.limits else 0.0 for name in use}
    bottleneck = max(use, key=lambda name: (share[name], -RESOURCES.index(name)))
    used = use[bottleneck].sum()
    point = options.limits[bottleneck] / FULL if options.limits else used / (HALF * capacity.sum())
    load = use[bottleneck] / point if point > 0 else use[bottleneck]
    others = [name for name in use if name != bottleneck]
    caps = Caps(
        np.array([use[name] for name in others]), np.array([options.limits[name] * capacity for name in others])
    )
    flows = _flows(groups, load, options)
    # on one node the exchange of rows was not measured: apart, it comes on top
    apart = total(np.concatenate([flows.producer, flows.consumer]), np.tile(flows.saved, 2), len(load))
    problem = Problem(
        load=load + apart,
        node=np.array([placed.get(key, UNPLACED) for key in group_keys(groups)], dtype=np.intp),
        capacity=capacity,
        removed=np.zeros(len(capacity), dtype=bool),
        cost=_column(groups, "state_bytes") / MB + 1 / MB if options.cost == "state" else np.ones(len(load)),
        budget=options.budget,
        operator=np.unique(np.array(groups.operator, dtype=str), return_inverse=True)[1].astype(np.intp),
        flows=flows,
        caps=caps if others else None,
    )
    return MeasuredProblem(problem, bottleneck)


def group_keys(groups: KeyGroups) -> Sequence[str]:
    """Return the name of each group, as it is remembered: operator/number."""
    return [f"{operator}/{group}" for operator, group in zip(groups.operator, groups.key_group, strict=True)]


def _flows(groups: KeyGroups, load: Floats, options: PlacementOptions) -> Flows:
    rate = np.array(groups.flow_rows_per_s, dtype=float)
    return Flows(
        producer=np.array(groups.producer, dtype=np.intp),
        consumer=np.array(groups.consumer, dtype=np.intp),
        rate=rate,
        saved=rate * _price(groups, load, options),
    )


def _price(groups: KeyGroups, load: Floats, options: PlacementOptions) -> float:
    """Return what a row that crosses between nodes costs either of them, points for a row a second."""
    rows = sum(groups.rows_per_s)
    return options.exchange_ratio * float(load.sum()) / rows if rows > 0 else 0.0


def _column(groups: KeyGroups, name: str) -> Floats:
    values = getattr(groups, name)
    if any(v is None for v in values):
        remedy = "Leave it out of placement.options, or measure it."
        raise MillraceError(f"key_groups.{name}", None, "a figure for every key group", remedy)
    return np.array(values, dtype=float)
