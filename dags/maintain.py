"""``compact`` and ``maintain``: keep the lake's tables small and quick to open, every hour and every night."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task

from millrace.dags.builders.dag_defaults import dag_settings
from millrace.plugins.outcomes import as_airflow

DOC_COMPACT = """
Compacts small files, table by table, so that readers and writers never meet more than an hour's of them.
Tables with few files are left alone. A table that somebody else is rewriting is left to the next hour.
"""
DOC = """
Deletes rows, files, logs and MLflow runs that have been kept long enough; compacts small files and writes checkpoints.
A table of an older version gets the current partitions and columns. Apps and evaluations keep writing meanwhile.
"""


@task
def tables() -> list[str]:
    """Name the tables that exist."""
    from millrace.lake.schemas import TABLES
    from millrace.wiring import lake

    with as_airflow():
        return [table for table in TABLES if lake().exists(table)]


with DAG(
    dag_id="compact",
    description="Compact the lake's small files",
    doc_md=DOC_COMPACT,
    schedule="47 0-2,4-23 * * *",  # at night maintain compacts
    max_active_runs=1,
    **dag_settings("compact"),
):

    @task(
        execution_timeout=timedelta(minutes=10),
        max_active_tis_per_dagrun=1,  # evaluations come first: they share the machine
        map_index_template="{{ task.op_kwargs['table'] }}",
    )
    def compact(table: str) -> int:
        """Compact one table, and say how many files fewer it has."""
        from airflow.sdk.timezone import utcnow

        from millrace.lake.maintenance import compact
        from millrace.model.errors import Conflict, NotReady
        from millrace.wiring import lake

        with as_airflow():
            try:
                return compact(lake(), table, utcnow().date())
            except Conflict as outcome:
                raise NotReady(f"left to the next hour: {outcome}") from outcome

    compact.expand(table=tables())

with DAG(
    dag_id="maintain",
    description="Expire, compact, vacuum and checkpoint the lake",
    doc_md=DOC,
    schedule="17 3 * * *",
    max_active_runs=1,
    **dag_settings("maintain"),
):

    @task(
        execution_timeout=timedelta(minutes=30),
        retry_delay=timedelta(minutes=5),
        max_active_tis_per_dagrun=1,  # evaluations come first: they share the machine
        map_index_template="{{ task.op_kwargs['table'] }}",
    )
    def maintain(table: str) -> dict[str, int]:
        """Expire, compact, vacuum and checkpoint one table."""
        from dataclasses import asdict

        from airflow.sdk.timezone import utcnow

        from millrace.lake.maintenance import maintain
        from millrace.model.errors import Conflict, NotReady
        from millrace.wiring import lake, table_keep_days

        with as_airflow():
            try:
                return asdict(maintain(lake(), table, utcnow().date(), table_keep_days()[table]))
            except Conflict as outcome:
                raise NotReady(f"left to the next night: {outcome}") from outcome

    maintain.expand(table=tables())

    @task(retries=0)
    def logs() -> int:
        """Delete the logs of drivers that ended long ago, and say how many files."""
        from millrace.wiring import delete_old_logs

        with as_airflow():
            return delete_old_logs()

    @task(retries=0, execution_timeout=timedelta(minutes=30))
    def runs() -> int:
        """Delete MLflow runs of Decisions that have been kept long enough, and say how many."""
        from millrace.wiring import delete_old_runs

        with as_airflow():
            return delete_old_runs()

    logs()
    runs()
