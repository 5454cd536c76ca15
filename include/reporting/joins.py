"""What a run tells of a stream join whose settings a decision changes: metrics, and the picture of its workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from include.model.decision import Decision
from include.model.deployment import JOIN_FIELDS, JOIN_WORKERS
from include.reporting.join_figure import join_figure

if TYPE_CHECKING:
    from mlflow import MlflowClient

FIGURE = "join-workers.png"


def join_metrics(decision: Decision) -> Mapping[str, float | None]:
    """Return what was measured of the join that a look saw: settings in force, tau of its window, what was offered."""
    found = decision.signals.join if decision.signals else None
    if found is None:
        return {}
    room = found.workers * found.capacity
    kept = None if None in found.window_tuples else sum(filter(None, found.window_tuples))
    return {
        "join_workers": found.workers,
        "join_block_tuples": found.block,
        "join_shed_ratio": found.shed,
        "join_window_tuples": kept,
        "join_tau_ratio": None if kept is None else kept / room,
        "join_offered_tuples": found.offered,
        "join_offered_ratio": None if found.offered is None else found.offered / room,
        "join_arrived_tuples": sum(found.arrived.values()) if found.arrived else None,
        "join_dropped_tuples": sum(found.dropped.values()) if found.dropped else None,
        "join_messages": found.messages,
        "join_message_bytes": found.bytes,
    }


def log_join(client: MlflowClient, run_id: str, decision: Decision) -> None:
    """Add the picture of a join's workers to the run of a decision that changes the join."""
    changed = {c.field: c.value for p in decision.proposals for c in p.changes if c.field in JOIN_FIELDS}
    if decision.signals is None or decision.signals.join is None or not changed:
        return
    workers = int(changed.get(JOIN_WORKERS, decision.signals.join.workers))
    client.log_figure(run_id, join_figure(decision.signals.join, workers), FIGURE)
