"""The stack's own Airflow and its logs do not grow without bound."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.local.stack import upkeep

NOW = datetime.now(UTC)


def test_delete_task_logs_when_runs_are_old_then_deletes_their_folders(tmp_path: Path) -> None:
    for run in ("dag_id=a/run_id=old", "dag_id=a/run_id=new", "dag_processor/2020-01-01"):
        (tmp_path / run / "task_id=x").mkdir(parents=True)
        (tmp_path / run / "task_id=x" / "attempt=1.log").touch()
        if not run.endswith("new"):
            os.utime(tmp_path / run, (0, 0))
    assert upkeep.delete_task_logs(tmp_path, NOW - timedelta(days=30)) == 2
    assert [f.relative_to(tmp_path).parts[1] for f in tmp_path.rglob("*.log")] == ["run_id=new"]


def test_task_logs_are_where_airflow_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", "/a")
    monkeypatch.delenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", raising=False)
    assert upkeep.task_logs() == Path("/a/logs")
    monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", "/50%%/logs")
    assert upkeep.task_logs() == Path("/50%/logs")


@pytest.mark.airflow
def test_clean_deletes_old_rows_of_airflows_tables_and_keeps_new_ones(tmp_path: Path) -> None:
    database = tmp_path / "airflow.db"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "MILLRACE"))} | {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{database}",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "MILLRACE_HOME": str(tmp_path / "home"),
    }
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], env=env, check=True, capture_output=True)
    with closing(sqlite3.connect(database)) as rows:
        rows.execute("delete from log")
        for age in (1, 29, 31, 900):
            time = (NOW - timedelta(days=age)).strftime("%Y-%m-%d %H:%M:%S")
            rows.execute("insert into log (dttm, event) values (?, ?)", (time, f"{age} days ago"))
        rows.commit()
    clean = "from millrace.local.stack.upkeep import clean; clean(())"
    subprocess.run([sys.executable, "-c", clean], env=env, check=True, capture_output=True)
    with closing(sqlite3.connect(database)) as rows:
        events = {event for (event,) in rows.execute("select event from log")}
        archives = rows.execute("select name from sqlite_master where name like '_airflow_deleted%'").fetchall()
    assert {"1 days ago", "29 days ago"} <= events and not {"31 days ago", "900 days ago"} & events
    assert not archives
