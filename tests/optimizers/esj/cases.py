"""Evaluations of a join for tests: 1000 tuples per worker, one every 10 s, nothing lost unless stated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import Deployment
from millrace.model.join import JoinSettings, JoinSignals
from millrace.model.objective import Bounds
from millrace.model.signals import Signals
from millrace.optimizers.conformance.builders import APP, NOON, app_signals, deployment, signals
from millrace.optimizers.esj.optimizer import Esj
from millrace.optimizers.esj.options import JoinPolicy

W = 1000
PERIOD_S = 10.0


def esj(workers: Mapping[str, int] | None = None, expected: float | None = None, **options: Any) -> Esj:
    bounds = workers or {"min": 1, "max": 8}
    section = {"capacity": W, "window_s": 60.0, "workers": bounds, "expected_rows_per_s": expected}
    return Esj(JoinPolicy.read({**section, "options": options}))


def measured(m: int, offered: int | None, **changes: Any) -> JoinSignals:
    """A join whose workers keep the offered tuples as evenly as possible."""
    each = () if offered is None else tuple(offered // m + (i < offered % m) for i in range(m))
    values: dict[str, Any] = {
        "workers": m,
        "block": 100,
        "shed": 0.0,
        "capacity": W,
        "window_s": 60.0,
        "window_tuples": each,
        "offered": offered,
        "until": NOON,
        "period_s": PERIOD_S,
        "offered_before": offered,
    }
    return JoinSignals(**(values | changes))


def evaluation(join: JoinSignals | None, at: int = 0, slots: int = 8, bounds: Bounds | None = None) -> Signals:
    """Signals of the evaluation number ``at``."""
    until = NOON + timedelta(seconds=PERIOD_S * at)
    seen = signals(app_signals(slots, 1.0, None), bounds=bounds or Bounds(1, 8), until=until)
    return replace(seen, join=None if join is None else replace(join, until=until))


def deployed(m: int, block: int = 100, shed: float = 0.0, slots: int = 8, *, running: bool = True) -> Deployment:
    return replace(deployment(slots, running=running), join=JoinSettings(m, block, shed))


def wanted(proposal: Proposal) -> dict[str, float]:
    """The changes of a proposal, by field."""
    assert {change.app for change in proposal.changes} <= {APP}
    return {change.field: change.value for change in proposal.changes}


def follow(optimizer: Esj, current: Deployment, *joins: JoinSignals) -> tuple[list[Proposal], Memory]:
    """Evaluate one after another, without changes."""
    memory: Memory = {}
    proposals = []
    for at, join in enumerate(joins):
        slots = current.apps[APP].slots
        proposal, memory = optimizer.propose(evaluation(join, at, slots), current, memory)
        proposals.append(proposal)
    return proposals, memory
