"""What the benchmark of many pipelines asks of Airflow."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.many import bench


def test_failed_tasks_of_all_dags_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Airflow:
        def get(self, path: str, params: Mapping[str, Any]) -> dict[str, Any]:
            assert "/dags/~/dagRuns/~/" in path and params["end_date_gte"] == "1970-01-01T00:01:00+00:00"
            return {"task_instances": [{"dag_id": "adapt_p", "task_id": "evaluate"}]}

    monkeypatch.setattr(bench.AirflowApi, "of", lambda home: Airflow())
    assert bench._failed(SimpleNamespace(home=None), 60.0) == ("adapt_p.evaluate",)
