"""Start the agent of a driver: its parts, and what it reports and notes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from millrace.lake.decisions import DecisionStore
from millrace.lake.deployments import DeploymentStore
from millrace.lake.executor_runs import executor_runs
from millrace.lake.store import Lake
from millrace.model.deployment import AppDeployment
from millrace.model.failure import reason
from millrace.model.master import KUBERNETES
from millrace.model.telemetry import ExecutorRun
from millrace.runtime.agent.agent import ExecutorAgent, Read, Report
from millrace.runtime.agent.allocation import Allocation, Lifetime
from millrace.runtime.agent.contingencies import Contingencies
from millrace.runtime.agent.executor_warm_up import ExecutorWarmUp, job_on_executors
from millrace.runtime.agent.kubernetes_pods import KubernetesPods, Shortages
from millrace.runtime.agent.lead_times import LeadTimes
from millrace.runtime.agent.missing_executors import Look, MissingExecutors
from millrace.runtime.agent.placement import StatePlacement
from millrace.runtime.telemetry.batches import AppIdentity
from millrace.runtime.telemetry.driver_telemetry import Telemetry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger(__name__)
LEARNED_FROM = timedelta(days=7)
"""Age of the oldest executor whose lead time counts."""


def start_agent(
    spark: SparkSession,
    identity: AppIdentity,
    content: AppDeployment,
    read: Read,
    lake: Lake,
    telemetry: Telemetry,
    queries: Sequence[Any],
    report: Report,
    awaits: Callable[[str], None],
    present_slots: int | None = None,
) -> ExecutorAgent:
    """Start the agent that changes an app's executors as Deployments say.

    Args:
        spark: A session of the application, on a cluster.
        identity: The app, with the Deployment version that the driver starts from.
        content: The app in that version, with executors.
        read: Reads the pipeline's newest Deployment.
        lake: The lake.
        telemetry: Takes executors and new slots.
        queries: Live list of the script's queries.
        report: Called after telemetry with what has been carried out.
        awaits: Called with why executors are missing, as a sentence; an empty text if none is.
        present_slots: Slots of a driver that was not started with those of its version; None if it was.
    """
    size = content.executor
    memory_mb = 0 if size is None else size.memory_mb

    def note(lifetime: Lifetime, number: int | None) -> None:
        telemetry.executor(
            ExecutorRun(
                identity.pipeline,
                identity.app,
                identity.generation,
                executor=lifetime.executor.id,
                executor_number=number,
                host=lifetime.executor.host,
                cores=lifetime.cores,
                memory_mb=memory_mb,
                started=lifetime.started,
                ended=lifetime.ended,
                reason=lifetime.reason,
                peak_memory_mb=lifetime.peak_memory_mb,
                measured=datetime.now(UTC) if lifetime.peak_memory_mb else None,
                lead_s=lifetime.lead_s,
            )
        )

    def report_all(version: int, slots: int) -> None:
        telemetry.resized(version, slots)
        report(version, slots)

    contingencies = Contingencies(identity.app, telemetry.watch, DecisionStore(lake), DeploymentStore(lake))
    ready = ExecutorWarmUp(job_on_executors(spark, content.slots_per_executor, queries)).ready
    agent = ExecutorAgent(
        identity.app,
        identity.version,
        content,
        read,
        Allocation(spark),
        StatePlacement(spark),
        queries,
        report_all,
        note,
        ready,
        contingencies.step,
        present_slots,
        MissingExecutors(LeadTimes(lambda: _lead_times(lake, identity)), _look(spark), awaits),
    )
    agent.start()
    return agent


def _lead_times(lake: Lake, identity: AppIdentity) -> list[float]:
    """Return how long executors of the app have recently taken to register, seconds."""
    runs = executor_runs(lake, identity.pipeline, datetime.now(UTC) - LEARNED_FROM)
    return [run.lead_s for run in runs if run.app == identity.app and run.lead_s is not None]


def _look(spark: SparkSession) -> Look:
    """Return what asks Spark's cluster manager why executors are missing; only Kubernetes says so."""
    if not str(spark.sparkContext.master).startswith(KUBERNETES):
        return lambda registered, wanted: None
    try:
        return Shortages(KubernetesPods(spark)).look
    except Exception as error:  # an untested version: executors are changed without it
        LOG.warning("Spark %s does not say why pods are missing: %s", spark.version, reason(error))
        return lambda registered, wanted: None
