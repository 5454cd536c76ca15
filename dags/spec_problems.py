"""Show the problems of pipeline specs as an import error of this file, so they hide no other DAG."""

from __future__ import annotations

from airflow.sdk.exceptions import AirflowException

from millrace.pipelines.catalog import load_all

if problems := load_all()[1]:
    raise AirflowException("\n".join(str(problem) for problem in problems))
