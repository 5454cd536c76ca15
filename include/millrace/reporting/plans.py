"""Log advised plans and stream joins to a run: parameters, metrics, files and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from millrace.model.codec import to_plain
from millrace.model.decision import Decision, Proposal
from millrace.model.deployment import JOIN_FIELDS, JOIN_WORKERS
from millrace.reporting.artifacts import log_picture
from millrace.reporting.plan_figures import admission_figure, join_figure, placement_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from mlflow import MlflowClient


@dataclass(frozen=True)
class Kind:
    """A kind of plan.

    Attributes:
        name: The field of a Proposal that holds it, and the prefix of its entries.
        params: Its fields that are parameters.
        metrics: Its fields that are metrics.
        figure: Draws it.
    """

    name: str
    params: Sequence[str]
    metrics: Sequence[str]
    figure: Callable[[Any], Figure]


KINDS = (
    Kind(
        "placement",
        ("method", "stage", "seed", "budget", "cores"),
        ("moves", "placed", "state_bytes", "batch_before_s", "batch_after_s", "bound_s", "gap_s"),
        placement_figure,
    ),
    Kind(
        "admission",
        ("method", "period_s", "capacity", "unit", "since", "optimal"),
        ("streams", "split", "query", "merge", "admitted", "redirections", "rescued", "missing", "error", "total_error",
         "highest_load", "holds", "least_nodes"),
        admission_figure,
    ),
)  # fmt: skip


def plan_params(proposals: Sequence[Proposal]) -> Mapping[str, object]:
    """Return the parameters of all plans; ``none`` if unset."""
    return {
        f"{kind.name}.{name}": "none" if (value := getattr(plan, name)) is None else value
        for kind, _, plan in _plans(proposals)
        for name in kind.params
    }


def plan_metrics(proposals: Sequence[Proposal]) -> Mapping[str, float | None]:
    """Return the metrics of all plans."""
    return {f"{kind.name}_{name}": getattr(plan, name) for kind, _, plan in _plans(proposals) for name in kind.metrics}


def log_plans(client: MlflowClient, run_id: str, proposals: Sequence[Proposal]) -> None:
    """Add all plans to a run, each as JSON and as a picture, ``<kind>-<optimizer>``."""
    for kind, optimizer, plan in _plans(proposals):
        log_picture(client, run_id, kind.figure(plan), f"{kind.name}-{optimizer}.png")
        client.log_dict(run_id, to_plain(plan), f"{kind.name}-{optimizer}.json")


def _plans(proposals: Sequence[Proposal]) -> Iterator[tuple[Kind, str, Any]]:
    for proposal in proposals:
        for kind in KINDS:
            if (plan := getattr(proposal, kind.name)) is not None:
                yield kind, proposal.optimizer, plan


FIGURE = "join-workers.png"


def join_metrics(decision: Decision) -> Mapping[str, float | None]:
    """Return the join's measurements: settings in force, tau of its window, what was offered."""
    join = decision.signals.join if decision.signals else None
    if join is None:
        return {}
    room = join.workers * join.capacity
    kept = None if None in join.window_tuples else sum(filter(None, join.window_tuples))
    return {
        "join_workers": join.workers,
        "join_block_tuples": join.block,
        "join_shed_ratio": join.shed,
        "join_window_tuples": kept,
        "join_tau_ratio": None if kept is None else kept / room,
        "join_offered_tuples": join.offered,
        "join_offered_ratio": None if join.offered is None else join.offered / room,
        "join_arrived_tuples": sum(join.arrived.values()) if join.arrived else None,
        "join_dropped_tuples": sum(join.dropped.values()) if join.dropped else None,
        "join_messages": join.messages,
        "join_message_bytes": join.bytes,
    }


def log_join(client: MlflowClient, run_id: str, decision: Decision) -> None:
    """Add the picture of a join's workers to the run of a decision that changes the join."""
    changed = {c.field: c.value for p in decision.proposals for c in p.changes if c.field in JOIN_FIELDS}
    if decision.signals is None or decision.signals.join is None or not changed:
        return
    workers = int(changed.get(JOIN_WORKERS, decision.signals.join.workers))
    log_picture(client, run_id, join_figure(decision.signals.join, workers), FIGURE)
