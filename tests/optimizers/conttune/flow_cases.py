"""One evaluation of an app or a job, and flow's answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from millrace.model.decision import Memory, Proposal
from millrace.model.objective import Bounds, Objective
from millrace.model.signals import AppSignals, Capacity, Edge, Observation, Signals
from millrace.optimizers.conformance.builders import (
    APP,
    capacity,
    dag_signals,
    deployment,
    observed,
    operator,
    signals,
    source,
    target,
)
from millrace.optimizers.registry import create

POWER = {p: 100.0 * p**0.9 for p in range(1, 9)}
"""Rows a second by level of an app or operator that scales as most do."""
WELL = {p: [POWER[p]] * 5 for p in (1, 2, 4, 8)}
"""The observations of an operator that was at all these levels before."""


def measured(p: int, **changes: float) -> Capacity:
    return capacity(p, POWER[p], **changes)


def ask(
    app: AppSignals,
    levels: Mapping[int, Any] | Iterable[Observation] = (),
    *,
    memory: Memory | None = None,
    bounds: Bounds | None = None,
    objective: Objective | None = None,
    **options: Any,
) -> Proposal:
    """flow's answer for an app as one operator."""
    history = observed(levels) if isinstance(levels, Mapping) else tuple(levels)
    seen = signals(app, history, bounds, objective)
    return create("flow", options).propose(seen, deployment(app.slots), memory or {})[0]


def outcome(proposal: Proposal, slots: int) -> tuple[int, str]:
    return target(proposal, slots), proposal.reason_code


FULL = Objective(target_utilisation=1.0)
"""What pipelined jobs are sized for, unless a test says otherwise: the paper's PA(p) >= lambda."""


def chain(rate: float, levels: Mapping[str, int], **changes: Any) -> Signals:
    """A source and operators in a row that keep up, each measured as POWER says; ``history`` to know more."""
    ids = ("in", *levels)
    told = [operator(name, p, rate, POWER[p]) for name, p in levels.items()]
    links = [Edge(a, b, rate) for a, b in pairwise(ids)]
    history = changes.pop("history", {})
    points = [o for name, of in history.items() for o in observed(of, operator=f"{APP}/{name}")]
    values: dict[str, Any] = {"objective": FULL, "bounds": Bounds(1, 16)}
    return dag_signals([source("in", rate), *told], links, tuple(points), **(values | changes))


def ask_job(seen: Signals, levels: Mapping[str, int], memory: Memory | None = None, **options: Any) -> Proposal:
    """flow's answer for a job with a p per operator."""
    return create("flow", options).propose(seen, deployment(seen.apps[0].slots, levels), memory or {})[0]


def targets(proposal: Proposal) -> dict[str, int]:
    return {change.operator or change.app: change.value for change in proposal.changes}
