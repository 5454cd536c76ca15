"""``reconcile``: starts again what died, when its wait is over, and tells people what happened, every minute."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, AssetWatcher, DeltaTriggerTimetable, task, teardown

from millrace.dags.builders.dag_defaults import dag_settings
from millrace.pipelines.catalog import load_all
from millrace.plugins.airflow_secrets import airflow_secret
from millrace.plugins.driver_end import DriverEndTrigger
from millrace.plugins.outcomes import as_airflow, report_changes
from millrace.wiring import drivers_here, lake_uri

DOC = """
Compares what runs of each launched pipeline with its newest Deployment, starts or stops what differs, with a back-off
of its own, and alerts whom specs name. A task is red while something that should run does not, and its log says why.
"""
PATIENCE_S = 5.0
"""How long a start is watched: it goes on by itself, and the next run brings it to its end."""
SLOTS = 2
"""Pipelines healed at a time: after a reboot all start at once, and evaluations need worker slots too."""


def _schedule() -> timedelta | AssetOrTimeSchedule:
    """Return each minute, and whenever a driver of this host is to be started again."""
    minute, run_dir = timedelta(minutes=1), drivers_here()
    if run_dir is None:
        return minute
    watcher = AssetWatcher("driver_ends", DriverEndTrigger(str(run_dir), lake_uri()))
    return AssetOrTimeSchedule(
        timetable=DeltaTriggerTimetable(minute), assets=[Asset("driver_ends", watchers=[watcher])]
    )


with DAG(
    dag_id="reconcile",
    description="Restart what should run and does not",
    doc_md=DOC,
    schedule=_schedule(),
    dagrun_timeout=timedelta(minutes=15),
    max_active_runs=1,
    **dag_settings("reconcile"),
):

    @task(retries=0)
    def launched() -> list[str]:
        """Name the pipelines whose state somebody has asked for."""
        from millrace.wiring import control_tables

        specs, _ = load_all()
        with as_airflow():
            # a running pipeline whose spec has become unreadable is named too, and fails visibly
            latest = control_tables().deployments.all_latest()
            return [d.pipeline for d in latest if not d.detached and (d.running or d.pipeline in specs)]

    @task(
        retries=0,
        max_active_tis_per_dag=SLOTS,
        execution_timeout=timedelta(minutes=10),
        map_index_template="{{ task.op_kwargs['pipeline'] }}",
    )
    def reconcile(pipeline: str) -> list[str]:
        """Make one pipeline what its newest Deployment says."""
        from millrace.pipelines.catalog import find
        from millrace.wiring import control_tables, query_failures, reconciler_for

        with as_airflow():
            spec = find(pipeline)
            reconciler = reconciler_for(spec, control_tables(), airflow_secret)
            # who is at work on this pipeline does what is needed; a start that goes on is seen again in a minute
            changes = reconciler.reconcile(wait_s=0, patience_s=PATIENCE_S)
            failed = " ".join(failure.sentence for failure in query_failures(pipeline, [spec.app]))
            return report_changes(changes, reconciler.problem() or failed or None)

    # it runs whatever became of the others, and leaves it to them whether the run is red
    @teardown
    @task(
        retries=0,
        execution_timeout=timedelta(minutes=1),  # a notifier may hang
        map_index_template="{{ task.op_kwargs['pipeline'] }}",
    )
    def alert(pipeline: str, **context: Any) -> list[str]:
        """Tell people what happened to one pipeline."""
        from airflow.sdk.timezone import utcnow

        from millrace.control.alerts import due
        from millrace.model.errors import NotReady
        from millrace.pipelines.catalog import find
        from millrace.plugins.alerts import send
        from millrace.wiring import control_tables, query_failures, reconciler_for

        with as_airflow():
            spec, tables = find(pipeline), control_tables()
            if tables.deployments.latest(pipeline) is None:
                raise NotReady(f"{pipeline} has not been launched")
            problem, failed = reconciler_for(spec, tables).problem(), query_failures(pipeline, [spec.app])
            alerts = due(spec, tables, problem, utcnow(), failed)
            try:
                send(spec.alerts, alerts, context)
            finally:
                tables.alerts.record(alerts)
            return [alert.sentence for alert in alerts]

    healed = reconcile.expand(pipeline=launched())
    if alerting := [spec.name for spec in load_all()[0].values() if spec.alerts]:
        healed >> alert.expand(pipeline=alerting)
