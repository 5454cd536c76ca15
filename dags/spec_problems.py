"""Shows what is wrong with pipeline specs as this file's import error, so that no other DAG is hidden by it."""

from __future__ import annotations

from airflow.sdk.exceptions import AirflowException

from millrace.pipelines.catalog import load_all

if problems := load_all()[1]:
    raise AirflowException("\n".join(str(problem) for problem in problems))
