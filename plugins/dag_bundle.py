"""The DAGs of a Millrace that was installed into an Airflow: a bundle beside those of its own."""

from __future__ import annotations

from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle

from millrace.places import PACKAGE


class MillraceDagBundle(LocalDagBundle):
    """The folder of Millrace's DAGs, wherever it was installed."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(path=str((PACKAGE / "dags").resolve()), **kwargs)
