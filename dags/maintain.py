"""``maintain``: keeps the lake's tables small and quick to open, every night."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task

from dags.builders.house_style import dag_settings
from plugins.outcomes import as_airflow

DOC = """
Compacts small files, removes files and log entries past their retention, and writes a checkpoint, table by table.
Apps and looks go on writing meanwhile.
"""

with DAG(
    dag_id="maintain",
    description="Compact, vacuum and checkpoint the lake",
    doc_md=DOC,
    schedule="17 3 * * *",
    max_active_runs=1,
    **dag_settings("maintain"),
):

    @task
    def tables() -> list[str]:
        """Name the tables that exist."""
        from include.lake.schemas import TABLES
        from include.wiring import lake

        with as_airflow():
            return [table for table in TABLES if lake().exists(table)]

    @task(
        execution_timeout=timedelta(minutes=30),
        retry_delay=timedelta(minutes=5),
        max_active_tis_per_dagrun=1,  # looks come first: they share the machine
        map_index_template="{{ task.op_kwargs['table'] }}",
    )
    def maintain(table: str) -> dict[str, int]:
        """Compact, vacuum and checkpoint one table."""
        from dataclasses import asdict

        from airflow.sdk.timezone import utcnow

        from include.lake.maintain import maintain
        from include.wiring import lake

        with as_airflow():
            return asdict(maintain(lake(), table, utcnow().date()))

    maintain.expand(table=tables())
