"""What the guards judge a change by, as the control tables tell it at present."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from include.control.decide import JUDGED_BY, Circumstances
from include.control.evaluation import GateResult
from include.lake.decisions import DecisionStore
from include.lake.deployments import DeploymentStore
from include.lake.reconfigurations import ReconfigurationStore
from include.lake.store import Lake
from include.model.deployment import Deployment
from include.model.spec import PipelineSpec


def read_circumstances(
    spec: PipelineSpec, lake: Lake, now: datetime, gate: GateResult, others: Sequence[Deployment]
) -> Circumstances:
    """Return what a change of a pipeline is judged by now.

    Args:
        spec: The pipeline.
        lake: The control tables.
        now: The present (UTC).
        gate: What the quality gate said of the telemetry that the change was decided on.
        others: Newest Deployments of the other pipelines.
    """
    return Circumstances(
        now=now,
        gate=gate,
        bounds=spec.bounds_contract(),
        max_per_hour=spec.objective.max_reconfigurations_per_hour,
        history=ReconfigurationStore(lake).recent(spec.name, 500, since=now - JUDGED_BY),
        others=others,
        decision=DecisionStore(lake).get,
        deployment=lambda version: DeploymentStore(lake).get(spec.name, version),
    )
