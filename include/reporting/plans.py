"""What a run tells of plans that are advised: parameters, metrics, the plan itself and its picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from include.model.codec import to_plain
from include.model.decision import Proposal
from include.reporting.admission_figure import admission_figure
from include.reporting.placement_figure import placement_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from mlflow import MlflowClient


@dataclass(frozen=True)
class Kind:
    """A kind of plan.

    Attributes:
        name: The field of a Proposal that it stands in, and what its entries begin with.
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
        ("method", "resource", "stage", "seed", "budget"),
        (
            "moves",
            "placed",
            "pairs",
            "spent",
            "distance_before",
            "distance_after",
            "bound",
            "gap",
            "collocation_before",
            "collocation_after",
        ),
        placement_figure,
    ),
    Kind(
        "admission",
        ("method", "period_s", "capacity", "since", "optimal"),
        (
            "streams",
            "split",
            "query",
            "merge",
            "admitted",
            "redirections",
            "error",
            "total_error",
            "highest_load",
            "holds",
            "least_nodes",
        ),
        admission_figure,
    ),
)


def plan_params(proposals: Sequence[Proposal]) -> Mapping[str, object]:
    """Return the parameters of all plans; ``none`` for what is not set."""
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
        client.log_figure(run_id, kind.figure(plan), f"{kind.name}-{optimizer}.png")
        client.log_dict(run_id, to_plain(plan), f"{kind.name}-{optimizer}.json")


def _plans(proposals: Sequence[Proposal]) -> Iterator[tuple[Kind, str, Any]]:
    for proposal in proposals:
        for kind in KINDS:
            if (plan := getattr(proposal, kind.name)) is not None:
                yield kind, proposal.optimizer, plan
