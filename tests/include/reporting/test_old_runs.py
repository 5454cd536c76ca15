"""Runs of old Decisions are deleted; other runs, and runs that a model in use came from, stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from millrace.model.errors import MillraceError
from millrace.reporting.mlflow_client import CHAMPION, connect
from millrace.reporting.old_runs import delete_old_runs
from millrace.reporting.tracker import DECISION_TAG

NOW = datetime(2026, 3, 3, 12, tzinfo=UTC)


@pytest.fixture
def client(mlflow_home: Path) -> Any:
    return connect(f"sqlite:///{mlflow_home / 'mlflow.db'}")


def run(client: Any, experiment: str, age_days: int, tags: dict[str, str]) -> str:
    started = int((NOW - timedelta(days=age_days)).timestamp() * 1000)
    return str(client.create_run(experiment, start_time=started, tags=tags).info.run_id)


def test_delete_old_runs_keeps_young_ones_others_and_the_champions(client: Any) -> None:
    experiment, ours = client.create_experiment("old runs"), {DECISION_TAG: "d"}
    old = [run(client, experiment, 401, ours) for _ in range(3)]
    young, others, champion = run(client, experiment, 399, ours), run(client, experiment, 999, {}), old.pop()
    client.create_registered_model("millrace-old-runs")
    version = client.create_model_version("millrace-old-runs", "file:///nowhere", run_id=champion).version
    client.set_registered_model_alias("millrace-old-runs", CHAMPION, version)
    before = NOW - timedelta(days=400)
    assert delete_old_runs(client.tracking_uri, before) == 2
    stages = {each: client.get_run(each).info.lifecycle_stage for each in (*old, young, others, champion)}
    assert [each for each, stage in stages.items() if stage == "deleted"] == old
    assert delete_old_runs(client.tracking_uri, before) == 0


def test_delete_old_runs_when_mlflow_is_unreachable_then_says_what_to_do() -> None:
    with pytest.raises(MillraceError, match="MILLRACE_KEEP_MLFLOW_DAYS=forever"):
        delete_old_runs("http://127.0.0.1:9", NOW)
