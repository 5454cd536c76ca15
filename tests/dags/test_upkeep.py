import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from tests.dags.runs import launched, run

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_db")]


@pytest.fixture(autouse=True)
def niceness(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return by how much tasks have lowered their priority; here they run in this process, which keeps its own."""
    lowered = list[int]()
    monkeypatch.setattr(os, "nice", lowered.append)
    return lowered


@pytest.fixture
def lake(millrace_home: Path) -> Lake:
    return Lake(millrace_home / "lake")


def test_reconcile_without_launched_pipelines_does_nothing(lake: Lake) -> None:
    state, tasks = run("reconcile")
    assert state == "success"
    assert tasks.pop("unsettled") == "success"
    assert set(tasks.values()) == {"skipped"}


def test_reconcile_has_no_task_for_a_pipeline_that_is_as_it_should_be(lake: Lake) -> None:
    launched(lake, running=False)
    state, tasks = run("reconcile")
    assert (state, tasks.pop("unsettled"), set(tasks.values())) == ("success", "success", {"skipped"})


def test_reconcile_shows_a_running_pipeline_without_spec(lake: Lake, tmp_path: Path) -> None:
    launched(lake, running=True)
    (tmp_path / "specs" / "tiny.yaml").unlink()
    assert run("reconcile") == ("failed", {"unsettled": "success", "reconcile[tiny]": "failed"})


def test_reconcile_fails_until_the_wanted_version_runs(lake: Lake) -> None:
    first = launched(lake, running=True)
    app = replace(first.apps["tiny"], script="/nowhere/tiny.py")
    DeploymentStore(lake).commit(replace(first, apps={"tiny": app}), 1)
    red = ("failed", {"unsettled": "success", "reconcile[tiny]": "failed"})
    assert run("reconcile") == red
    assert run("reconcile") == red, "it waits for its next try, and does not run meanwhile"


def test_maintain_when_run_then_maintains_every_existing_table(lake: Lake) -> None:
    two_days_ago = datetime.now(UTC) - timedelta(days=2)
    row = {"pipeline": "tiny", "time": two_days_ago, "app": "tiny", "generation": 1}
    for number in range(3):
        lake.append("telemetry/apps", [row], {"tiny/tiny": number})
    launched(lake, running=False)
    state, tasks = run("maintain")
    assert state == "success"
    assert tasks.pop("runs") == "skipped", "there is no MLflow"
    assert set(tasks) == {"tables", "maintain[telemetry/apps]", "maintain[control/deployments]", "logs"}
    assert set(tasks.values()) == {"success"}
    assert len(DeltaTable(str(lake.path("telemetry/apps"))).file_uris()) == 1
    assert list(lake.path("control/deployments").glob("_delta_log/*.checkpoint.parquet"))


def test_maintain_deletes_expired_rows(lake: Lake, millrace_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_KEEP_CONTROL_DAYS", "forever")
    now, logs = datetime.now(UTC), millrace_home / "logs" / "drivers"
    for days in (1, 500):
        for table in ("telemetry/apps", "control/runs"):
            lake.append(table, [{"pipeline": "tiny", "time": now - timedelta(days=days)}])
    logs.mkdir(parents=True)
    for number in (1, 2):
        (logs / f"driver-tiny-tiny-{number}.log").touch()
        os.utime(logs / f"driver-tiny-tiny-{number}.log", (0, 0))
    assert run("maintain")[0] == "success"
    fresh = Lake(lake.location)
    assert len(fresh.rows("select time from apps", "telemetry/apps")) == 1
    assert len(fresh.rows("select time from runs", "control/runs")) == 2
    assert [file.name for file in logs.iterdir()] == ["driver-tiny-tiny-2.log"]


def test_maintain_when_the_lake_is_empty_then_does_nothing(lake: Lake) -> None:
    state, tasks = run("maintain")
    assert state == "success"
    assert "failed" not in tasks.values()


def test_compact_keeps_old_files_for_their_readers_and_gives_way(lake: Lake, niceness: list[int]) -> None:
    row = {"pipeline": "tiny", "time": datetime.now(UTC), "app": "tiny", "generation": 1}
    for number in range(40):
        lake.append("telemetry/apps", [row], {"tiny/tiny": number})
    state, tasks = run("compact")
    assert state == "success" and set(tasks) == {"tables", "compact[telemetry/apps]"}
    assert len(DeltaTable(str(lake.path("telemetry/apps"))).file_uris()) == 1
    assert len(list(lake.path("telemetry/apps").rglob("part-*.parquet"))) == 41
    assert niceness == [19]
