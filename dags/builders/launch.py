"""``launch_<pipeline>``: a person starts, stops, resizes or rolls back a pipeline."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Param, XComArg, task

from millrace.dags.builders.dag_defaults import dag_settings, longest_change, reconfigurations_asset, slots_params
from millrace.model.spec import PipelineSpec
from millrace.plugins.airflow_secrets import airflow_secret
from millrace.plugins.outcomes import as_airflow, report_changes

DOC = """
Records the form's values as the newest Deployment of `{name}`; the reconciler then starts or stops drivers to match.
With the same values again, it changes nothing while a driver runs, and starts a driver if none runs.
"""


def build(spec: PipelineSpec) -> DAG:
    """Return the DAG that launches a pipeline."""
    with DAG(
        dag_id=f"launch_{spec.name}",
        description=spec.description or f"Start, stop or roll back {spec.name}",
        doc_md=DOC.format(name=spec.name),
        schedule=None,
        params={
            "running": Param(True, type="boolean", title="Running", description="Off: stop after the current batch"),
            **slots_params(spec, "Empty: keep the current number"),
            "roll_back_to": Param(
                None, type=["null", "integer"], minimum=1, title="Roll back to", description="Version to restore"
            ),
        },
        max_active_runs=1,
        **dag_settings("launch", pipeline=spec.name),
    ) as dag:
        add_tasks(spec)
    return dag


def add_tasks(spec: PipelineSpec, *, form: bool = True) -> XComArg:
    """Add the tasks that launch a pipeline to the DAG or group that is being defined, and return the last one.

    Args:
        spec: The pipeline.
        form: Whether the DAG's params say what to launch; if not, it is launched as its spec says.
    """

    @task
    def deploy(params: dict[str, Any], dag_run: Any) -> int:
        from millrace.control.launch import launch
        from millrace.wiring import control_tables, first_join_workers, reconciler_for

        with as_airflow():
            author, tables = dag_run.triggering_user_name or "person", control_tables()
            alive, wanted = reconciler_for(spec, tables).running(), params if form else {}
            workers = first_join_workers(spec)
            return launch(spec, tables, **wanted, author=author, alive=alive, join_workers=workers).version

    @task(execution_timeout=longest_change(spec), outlets=[reconfigurations_asset(spec)])
    def reconcile(version: int) -> list[str]:
        from millrace.wiring import control_tables, external_reconciler, reconciler_for

        with as_airflow():
            tables = control_tables()
            reconciler = reconciler_for(spec, tables, airflow_secret)
            changes, problem = reconciler.reconcile(), reconciler.problem()
            if not spec.submit.is_external:
                return report_changes(spec, changes, problem)
            # others start its driver, perhaps later: the launch has done its part
            restart = external_reconciler(spec.name, tables).restart_needed(spec)
            return [*report_changes(spec, changes, None), *filter(None, [problem, restart])]

    return reconcile(deploy())
