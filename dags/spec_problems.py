"""Shows what is wrong with pipeline specs as this file's import error, so that no other DAG is hidden by it."""

from __future__ import annotations

from airflow.sdk.exceptions import AirflowException

from include.pipelines.catalog import load_all
from optimizers.registry import problems

specs, found = load_all()
if found := [*found, *problems(specs.values())]:
    raise AirflowException("\n".join(str(problem) for problem in found))
