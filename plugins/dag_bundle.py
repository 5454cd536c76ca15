"""A DAG bundle with Millrace's DAGs, for a Millrace that is installed into an existing Airflow."""

from __future__ import annotations

from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle

from millrace.places import PACKAGE


class MillraceDagBundle(LocalDagBundle):
    """The folder of Millrace's DAGs in the installed package."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(path=str((PACKAGE / "dags").resolve()), **kwargs)
