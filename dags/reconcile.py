"""``reconcile``: every minute, restart dead drivers whose back-off is over and send alerts."""

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
Starts or stops drivers until they match each pipeline's newest Deployment, with a back-off, and sends due alerts.
Only a pipeline that does not run as it should has a task of its own; its log says why.
"""
PATIENCE_S = 5.0
"""How long a run watches a start. The start continues on its own; the next run completes it."""
SLOTS = 2
"""Pipelines reconciled in parallel: after a reboot all start at once, and evaluations need worker slots too."""


def _schedule() -> timedelta | AssetOrTimeSchedule:
    """Return the schedule: every minute, and whenever a driver of this host is due for a restart."""
    minute, run_dir = timedelta(minutes=1), drivers_here()
    if run_dir is None:
        return minute
    watcher = AssetWatcher("driver_ends", DriverEndTrigger(str(run_dir), lake_uri()))
    return AssetOrTimeSchedule(
        timetable=DeltaTriggerTimetable(minute), assets=[Asset("driver_ends", watchers=[watcher])]
    )


with DAG(
    dag_id="reconcile",
    description="Restart pipelines that should run but do not",
    doc_md=DOC,
    schedule=_schedule(),
    dagrun_timeout=timedelta(minutes=15),
    max_active_runs=1,
    **dag_settings("reconcile"),
):

    @task(retries=0, execution_timeout=timedelta(minutes=5))
    def unsettled() -> list[str]:
        """Take the next step of every launched pipeline, and return those that need a task of their own."""
        from millrace.plugins.outcomes import is_settled
        from millrace.wiring import control_tables

        specs, _ = load_all()
        with as_airflow():
            tables = control_tables()
            return [
                d.pipeline
                for d in tables.deployments.all_latest()
                if not d.detached
                # a running pipeline with an unreadable spec gets a task, which fails visibly
                and (d.running if (spec := specs.get(d.pipeline)) is None else not is_settled(spec, tables))
            ]

    @task(
        retries=0,
        max_active_tis_per_dag=SLOTS,
        execution_timeout=timedelta(minutes=10),
        map_index_template="{{ task.op_kwargs['pipeline'] }}",
    )
    def reconcile(pipeline: str) -> list[str]:
        """Bring one pipeline to its newest Deployment."""
        from millrace.pipelines.catalog import find
        from millrace.wiring import control_tables, query_failures, reconciler_for

        with as_airflow():
            spec = find(pipeline)
            reconciler = reconciler_for(spec, control_tables(), airflow_secret)
            # another reconcile of this pipeline does the work; a start in progress is checked again in a minute
            changes = reconciler.reconcile(wait_s=0, patience_s=PATIENCE_S)
            failed = " ".join(failure.sentence for failure in query_failures(pipeline, list(spec.app_specs)))
            return report_changes(spec, changes, reconciler.problem() or failed or None)

    # runs whatever the other tasks' results; only they decide whether the run fails
    @teardown
    @task(
        retries=0,
        execution_timeout=timedelta(minutes=1),  # a notifier may hang
        map_index_template="{{ task.op_kwargs['pipeline'] }}",
    )
    def alert(pipeline: str, **context: Any) -> list[str]:
        """Send the alerts of one pipeline."""
        from airflow.sdk.timezone import utcnow

        from millrace.control.alerts import due
        from millrace.model.errors import NotReady
        from millrace.pipelines.catalog import find
        from millrace.plugins.alerts import send
        from millrace.wiring import control_tables, query_failures, reconciler_for, restart_needed

        with as_airflow():
            spec, tables = find(pipeline), control_tables()
            latest = tables.deployments.latest(pipeline)
            if latest is None:
                raise NotReady(f"{pipeline} was never launched")
            problem, failed = reconciler_for(spec, tables).problem(), query_failures(pipeline, list(spec.app_specs))
            alerts = due(spec, tables, problem, utcnow(), failed, restart_needed(latest, tables, spec))
            try:
                send(spec.alerts, alerts, context)
            finally:
                tables.alerts.record(alerts)
            return [alert.sentence for alert in alerts]

    healed = reconcile.expand(pipeline=unsettled())
    if alerting := [spec.name for spec in load_all()[0].values() if spec.alerts]:
        healed >> alert.expand(pipeline=alerting)
