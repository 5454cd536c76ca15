"""The only place that creates collaborators: a pipeline's lake, reconciler, gate, optimizers and tracker.

Imports are inside the functions, so parsing DAGs or showing a command's help does not load them.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import Any

    from millrace.control.loop import ControlLoop
    from millrace.drivers.delegated_reconciler import DelegatedReconciler
    from millrace.drivers.external_reconciler import ExternalReconciler
    from millrace.drivers.reconciler import Reconciler
    from millrace.lake.control_tables import ControlTables
    from millrace.lake.deployments import DeploymentStore
    from millrace.lake.store import Lake
    from millrace.model.backtest import Backtest
    from millrace.model.deployment import Deployment
    from millrace.model.query_failure import QueryFailure
    from millrace.model.spec import PipelineSpec
    from millrace.model.submit_options import SecretOf
    from millrace.reporting.fleet_view import FleetView

LOGS_DAYS = 30
"""Days to keep the logs of drivers and of Airflow's tasks, and Airflow's own rows in the local stack."""

PLANNED_WITHIN = timedelta(days=1)
"""Age of the oldest plan for a fleet's streams that is shown."""
VERSIONS_OF_A_FLEET = 30
"""Newest versions that are searched for moves of streams."""

LAKE_VARIABLE = "MILLRACE_LAKE"
MOST_FILES = 4096
"""Data files that a process keeps which evaluates many pipelines: about a hundred per pipeline."""
_KEPT: list[ControlTables] = []
RUNNER_VARIABLE = "MILLRACE_RUNNER"
"""Set if a runner owns the drivers (docker-compose.yaml): no one else starts or stops a driver."""


def lake_uri() -> str:
    """Return the lake's location: the folder or bucket that ``MILLRACE_LAKE`` names, or else a folder of the home.

    Raises:
        MillraceError: If the variable names neither.
    """
    from millrace.environment.home import Home
    from millrace.model.errors import MillraceError

    named = os.environ.get(LAKE_VARIABLE)
    if named and not named.startswith("/"):
        from millrace.lake.object_stores import FORMS, store_of

        if store_of(named) is None:
            raise MillraceError(LAKE_VARIABLE, named, FORMS, "Correct it where it is set; a folder is absolute.")
    return named or str(Home.from_env().lake)


def lake() -> Lake:
    """Return the lake.

    Raises:
        MillraceError: If ``MILLRACE_LAKE`` is not a possible place for one.
    """
    from millrace.lake.store import Lake

    return _KEPT[0].lake if _KEPT else Lake(lake_uri())


def keep_lake() -> Lake:
    """Let :func:`lake` and :func:`control_tables` return the same objects from now on, and return the lake.

    A process that evaluates many pipelines then reads the tables' logs once for all of them.
    """
    from millrace.lake.control_tables import ControlTables
    from millrace.lake.store import Lake

    _KEPT[:] = [ControlTables(Lake(lake_uri(), most_files=MOST_FILES))]
    return _KEPT[0].lake


def keep_days(what: str, default: int | None) -> int | None:
    """Return the days to keep something: ``MILLRACE_KEEP_<WHAT>_DAYS``, or else a default; None keeps it permanently.

    Args:
        what: ``telemetry``, ``control``, ``mlflow``, ``airflow`` or ``logs``.
        default: Days if the variable is not set, or empty as in docker-compose.yaml.

    Raises:
        MillraceError: If it is neither a number >= 1 nor ``forever``.
    """
    from millrace.model.errors import MillraceError

    variable = f"MILLRACE_KEEP_{what.upper()}_DAYS"
    days = os.environ.get(variable)
    if not days or default is None or days == "forever":
        return None if days else default
    if not days.isdecimal() or int(days) < 1:
        raise MillraceError(variable, days, "a number of days from 1 on, or forever", "Correct it where it is set.")
    return int(days)


def table_keep_days() -> dict[str, int | None]:
    """Return the days to keep rows of each table; None keeps them permanently.

    Raises:
        MillraceError: If a variable is not a number of days.
    """
    from millrace.lake.schemas import TABLES

    return {name: keep_days(name.partition("/")[0], table.keep_days) for name, table in TABLES.items()}


def delete_old_logs() -> int:
    """Delete the logs of drivers that ended long ago, except each app's newest; return how many files.

    Raises:
        MillraceError: If the variable is not a number of days.
    """
    from millrace.drivers import driver_log
    from millrace.environment.home import Home

    days = keep_days("logs", LOGS_DAYS)
    return 0 if days is None else driver_log.expire(Home.from_env().logs / "drivers", utc_now() - timedelta(days=days))


def delete_old_runs() -> int:
    """Delete MLflow runs of Decisions that have been kept long enough; return how many.

    Raises:
        NotReady: Quietly, if there is no MLflow or its runs are kept permanently.
        MillraceError: If the variable is not a number of days, or MLflow cannot be reached.
    """
    from millrace.lake.table_schema import CONTROL_DAYS
    from millrace.model.errors import NotReady
    from millrace.reporting import old_runs

    uri, days = os.environ.get("MLFLOW_TRACKING_URI"), keep_days("mlflow", CONTROL_DAYS)
    if uri is None or days is None:
        raise NotReady("no MLflow" if uri is None else "MLflow's runs are kept for good")
    return old_runs.delete_old_runs(uri, utc_now() - timedelta(days=days))


def control_tables() -> ControlTables:
    """Return the control tables of the lake."""
    from millrace.lake.control_tables import ControlTables

    return _KEPT[0] if _KEPT else ControlTables(lake())


def control_loop(spec: PipelineSpec, secret_of: SecretOf | None = None) -> ControlLoop:
    """Return the control loop of a pipeline.

    Args:
        spec: The pipeline.
        secret_of: Returns drivers' secrets that Airflow keeps.

    Raises:
        MillraceError: If its spec names an unknown optimizer or option.
    """
    from millrace.control.loop import ControlLoop
    from millrace.control.quality import DataDocs, QualityGate
    from millrace.control.spark_plant import SparkPlant
    from millrace.environment.home import Home
    from millrace.model.protocols import HasModel
    from millrace.model.spec import Mode
    from millrace.optimizers.registry import all_of
    from millrace.reporting.tracker import MlflowTracker

    tables = control_tables()
    remark = ""
    if spec.submit.is_external and (unable := external_reconciler(spec.name, tables).unable()):
        spec, remark = spec.model_copy(update={"mode": Mode.ADVISE}), f"This is advice only: {unable}"
    optimizers = all_of(spec)
    tuner = optimizers[spec.tuner.name]
    fit = tuner.model if isinstance(tuner, HasModel) else None
    return ControlLoop(
        spec=spec,
        tables=tables,
        gate=QualityGate(spec, tables, DataDocs(Home.from_env().data_docs / spec.name)),
        plant=SparkPlant(spec, tables, reconciler_for(spec, tables, secret_of), utc_now),
        optimizers=optimizers,
        tracker=MlflowTracker(
            os.environ.get("MLFLOW_TRACKING_URI"),
            fit,
            note=lambda problem: tables.report_problems.note(spec.name, problem, utc_now()),
        ),
        clock=utc_now,
        query_failures=lambda: query_failures(spec.name, list(spec.app_specs)),
        remark=remark,
    )


def first_join_workers(spec: PipelineSpec) -> int | None:
    """Return the workers that a pipeline's join needs for the rate its spec expects; None if it has or expects none.

    Raises:
        MillraceError: If an option of the join is unknown or out of range.
    """
    from millrace.optimizers.esj.options import JoinPolicy
    from millrace.optimizers.esj.workers import start_workers

    if spec.join is None or spec.join.expected_rows_per_s is None:
        return None
    return start_workers(JoinPolicy.read(spec.join_options or {}))


def reconciler_for(
    spec: PipelineSpec, tables: ControlTables, secret_of: SecretOf | None = None
) -> Reconciler | DelegatedReconciler | ExternalReconciler:
    """Return what makes a pipeline run its latest Deployment.

    That is its own reconciler, one that waits for the runner, or one that follows a driver which others start.
    """
    if spec.submit.is_external:
        return external_reconciler(spec.name, tables, spec.ready_deadline_s)
    if has_runner(spec):
        from millrace.drivers.delegated_reconciler import DelegatedReconciler
        from millrace.environment.home import Home

        return DelegatedReconciler(spec, tables, Home.from_env().run / "drivers")
    return own_reconciler(spec, tables, secret_of)


def external_reconciler(pipeline: str, tables: ControlTables, deadline_s: float = 120.0) -> ExternalReconciler:
    """Return what follows the driver of a pipeline if somebody else starts it."""
    from millrace.drivers.external_reconciler import ExternalReconciler

    return ExternalReconciler(pipeline, tables, deadline_s, utc_now)


def restart_needed(deployment: Deployment, tables: ControlTables, spec: PipelineSpec | None) -> str | None:
    """Return what a person has to restart, and how, if somebody else starts the pipeline's driver; None if nothing."""
    if spec is None or not deployment.is_external:
        return None
    return external_reconciler(deployment.pipeline, tables).restart_needed(spec)


def own_reconciler(spec: PipelineSpec, tables: ControlTables, secret_of: SecretOf | None = None) -> Reconciler:
    """Return the reconciler that starts and stops drivers as processes on this machine."""
    from millrace.drivers.reconciler import Reconciler
    from millrace.environment.home import Home
    from millrace.environment.spark_env import submit_options

    home, options = Home.from_env(), replace(submit_options(), secret_of=secret_of)
    return Reconciler(spec, tables, home.run / "drivers", home.logs / "drivers", options)


def has_runner(spec: PipelineSpec) -> bool:
    """Return whether a runner makes a pipeline's changes, and counts them."""
    return bool(os.environ.get(RUNNER_VARIABLE)) and not spec.submit.is_external


def airflow_is_elsewhere() -> bool:
    """Return whether another Airflow than that of ``./millrace up`` evaluates: your own, or docker-compose.yaml's."""
    from millrace.places import IN_CHECKOUT

    return not IN_CHECKOUT or bool(os.environ.get(RUNNER_VARIABLE))


def drivers_here() -> Path | None:
    """Return the run folder of drivers that are processes on this machine; None if a runner owns them."""
    from millrace.environment.home import Home

    return None if os.environ.get(RUNNER_VARIABLE) else Home.from_env().run / "drivers"


def problem(deployment: Deployment, deployments: DeploymentStore, spec: PipelineSpec | None) -> str | None:
    """Return why a pipeline does not run as its newest Deployment wants; None if all is well.

    Args:
        deployment: The pipeline's newest Deployment.
        deployments: Contains the content of each version.
        spec: The pipeline; None if its spec cannot be read.
    """
    from millrace.drivers import app_drivers, delegated_reconciler
    from millrace.environment.home import Home
    from millrace.lake.control_tables import ControlTables

    if deployment.is_external:
        return external_reconciler(deployment.pipeline, ControlTables(deployments.lake)).problem()
    home = Home.from_env()
    run_dir = home.run / "drivers"
    if os.environ.get(RUNNER_VARIABLE):  # its drivers are in another container's process table
        return delegated_reconciler.problem(run_dir, deployment)
    period_s = 0.0 if spec is None else spec.period_s
    return app_drivers.problem(run_dir, deployment, deployments, utc_now(), home.logs / "drivers", period_s)


def query_failures(pipeline: str, apps: Iterable[str]) -> tuple[QueryFailure, ...]:
    """Return the queries that failed while the drivers that serve a pipeline's apps continued."""
    from millrace.environment.home import Home
    from millrace.run_folder import driver_records

    return driver_records.query_failures(Home.from_env().run / "drivers", pipeline, apps)


def fleet(spec: PipelineSpec, deployed: Deployment, tables: ControlTables, *, ask_brokers: bool = True) -> FleetView:
    """Return the nodes and streams of a fleet as they are now, its last plan and recent moves.

    Args:
        spec: A pipeline with a section ``fleet``.
        deployed: Its newest Deployment.
        tables: Contains its Decisions and Deployments.
        ask_brokers: Whether to ask Kafka's brokers for topics that have no node yet, which may take seconds.
    """
    from millrace.control.fleet_streams import found_streams
    from millrace.environment.home import Home
    from millrace.fleet.discovery import Found
    from millrace.model.errors import MillraceError
    from millrace.reporting.fleet_reports import node_reports
    from millrace.reporting.fleet_view import fleet_view

    found, brokers = Found(()), None if spec.fleet is None else spec.fleet.streams.brokers
    if brokers is None or ask_brokers:
        try:
            found = found_streams(spec)
        except MillraceError as error:  # the streams that run are shown anyway
            found = Found((), (str(error),))
    processes_here = not os.environ.get(RUNNER_VARIABLE)
    reports = node_reports(Home.from_env().run / "drivers", deployed, processes_here=processes_here)
    signals = tables.decisions.last_signals(spec.name)
    planned = tables.decisions.last_admission(spec.name, utc_now() - PLANNED_WITHIN)
    return fleet_view(
        deployed, reports, found, signals, planned, tables.deployments.versions(spec.name, VERSIONS_OF_A_FLEET)
    )


def replay(
    spec: PipelineSpec,
    tables: ControlTables,
    tuner: str,
    options: Mapping[str, Any],
    since: datetime | None,
    until: datetime,
) -> Backtest:
    """Replay what was recorded of a pipeline with a tuner; nothing is written.

    Args:
        spec: The pipeline.
        tables: Contains what was recorded.
        tuner: The tuner's registry name.
        options: Its options. If the tuner is the spec's own, the spec's options apply too.
        since: Time of the first evaluation (UTC); None for a day before the last one.
        until: Latest time of an evaluation (UTC).

    Raises:
        MillraceError: If the tuner or an option is unknown, or nothing was recorded in that time.
    """
    from millrace.optimizers.registry import create
    from millrace.reporting import backtest

    whole = {**(spec.tuner.options if tuner == spec.tuner.name else {}), **options}
    return backtest.replay(spec, tables, tuner, create(tuner, whole), whole, since, until)


def utc_now() -> datetime:
    """Return the current time (UTC)."""
    return datetime.now(UTC)
