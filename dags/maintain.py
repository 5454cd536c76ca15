"""``compact`` and ``maintain``: keep the lake's tables small and fast to open, every hour and every night."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG, task

from millrace.dags.builders.dag_defaults import dag_settings
from millrace.plugins.outcomes import as_airflow

LOWEST_PRIORITY = 19
DOC_COMPACT = """
Compacts small files, table by table, so readers and writers never see more than one hour's small files.
Skips tables with few files. If another process is rewriting a table, the next run, an hour later, compacts it.
"""
DOC = """
Deletes expired rows, files, logs and MLflow runs, compacts small files and writes checkpoints.
Adds columns that tables of older versions lack. Apps and evaluations can keep writing.
"""


def give_way() -> None:
    """Let evaluations and drivers have the processors first; this task's own process has to wait."""
    os.nice(LOWEST_PRIORITY)


@task
def tables() -> list[str]:
    """Return the tables that exist."""
    from millrace.lake.schemas import TABLES
    from millrace.wiring import lake

    with as_airflow():
        return [table for table in TABLES if lake().exists(table)]


with DAG(
    dag_id="compact",
    description="Compact the lake's small files",
    doc_md=DOC_COMPACT,
    schedule="47 0-2,4-23 * * *",  # maintain compacts at night
    max_active_runs=1,
    **dag_settings("compact"),
):

    @task(
        execution_timeout=timedelta(minutes=10),
        max_active_tis_per_dagrun=1,  # evaluations come first: they share the machine
        map_index_template="{{ task.op_kwargs['table'] }}",
    )
    def compact(table: str) -> int:
        """Compact one table and return by how many files it shrank."""
        from airflow.sdk.timezone import utcnow

        from millrace.lake.maintenance import compact
        from millrace.model.errors import Conflict, NotReady
        from millrace.wiring import lake

        give_way()
        with as_airflow():
            try:
                return compact(lake(), table, utcnow().date())
            except Conflict as outcome:
                raise NotReady(f"{table} is left to the next hour: {outcome}") from outcome

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

        give_way()
        with as_airflow():
            try:
                return asdict(maintain(lake(), table, utcnow().date(), table_keep_days()[table]))
            except Conflict as outcome:
                raise NotReady(f"{table} is left to the next night: {outcome}") from outcome

    maintain.expand(table=tables())

    @task(retries=0)
    def logs() -> int:
        """Delete the expired logs of ended drivers and return the number of files."""
        from millrace.wiring import delete_old_logs

        with as_airflow():
            return delete_old_logs()

    @task(retries=0, execution_timeout=timedelta(minutes=30))
    def runs() -> int:
        """Delete expired MLflow runs of Decisions and return their number."""
        from millrace.wiring import delete_old_runs

        with as_airflow():
            return delete_old_runs()

    logs()
    runs()
