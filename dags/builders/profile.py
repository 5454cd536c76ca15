"""``profile_<pipeline>``: a scheduled Spark batch job counts the rows of each input stream in the source table."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, literal
from airflow.sdk.exceptions import AirflowSkipException

from millrace.dags.builders.dag_defaults import dag_settings
from millrace.model.profile_spec import Profile
from millrace.model.spec import PipelineSpec
from millrace.places import PACKAGE
from millrace.wiring import lake_uri

DOC = """
Reads the rows added to the source table of `{name}` and counts the rows of each input stream per period.
The admission optimizer reads the counts from `telemetry/streams`.
"""


def build(spec: PipelineSpec, profile: Profile) -> DAG:
    """Return the DAG that profiles a pipeline's source."""
    with DAG(
        dag_id=f"profile_{spec.name}",
        description=f"Profile the source of {spec.name}",
        doc_md=DOC.format(name=spec.name),
        schedule=profile.schedule,
        dagrun_timeout=timedelta(hours=1),
        max_active_runs=1,
        **dag_settings("profile", pipeline=spec.name),
    ) as dag:
        SparkSubmitOperator(
            task_id="profile",
            name=f"profile_{spec.name}",
            application=str(PACKAGE / "jobs" / "profile_source.py"),
            application_args=literal(_arguments(spec, profile)),  # braces in a path are not a Jinja template
            pre_execute=partial(_prepare, spec.name),
            driver_memory="1g",
            execution_timeout=timedelta(minutes=20),
            retry_delay=timedelta(minutes=1),
        )
    return dag


def _arguments(spec: PipelineSpec, profile: Profile) -> list[str]:
    return [
        *("--pipeline", spec.name),
        *("--lake", lake_uri()),
        *("--source", profile.source),
        *("--time-column", profile.time_column),
        *("--period-s", str(profile.period_s)),
        *("--stream", ",".join(profile.stream)),
    ]


def _prepare(pipeline: str, context: Any) -> None:
    """Complete the operator with this machine's jars, interpreter and Spark home; on schedule, only if the job runs."""
    from millrace.environment.spark_env import driver_submit_conf, environment
    from millrace.wiring import control_tables

    if context["dag_run"].run_type == "scheduled":
        latest = control_tables().deployments.latest(pipeline)
        if latest is None or not latest.kept_running:
            raise AirflowSkipException(f"{pipeline} does not run.")

    operator = context["task"]
    operator.conf = {**driver_submit_conf(), "spark.ui.enabled": "false"}
    operator.env_vars = environment()
