"""Keep the stack's own Airflow, MLflow and logs from growing forever.

Airflow's tasks cannot access its database, and an Airflow outside the stack must not be cleaned. So this runs next to
the stack's services, and only there.

Usage: python -m millrace.local.stack.upkeep [OPTIONS OF mlflow gc]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from millrace.drivers import driver_log
from millrace.environment.home import Home
from millrace.model.errors import MillraceError
from millrace.wiring import LOGS_DAYS, keep_days

MINUTE_S = 60.0
FIRST = 60
"""Minutes from the start to the first cleaning, which takes a processor for seconds; a demo has none to spare."""
DAY = 24 * 60
BATCH_ROWS = 5_000
"""Rows per delete: others wait for the database for a few seconds at most."""
REGRET = "7d"
"""How long a deleted MLflow run can be restored."""
LOGS_OF_A_RUN = ("dag_id=*/run_id=*", "dag_processor/*-*-*")


def main(mlflow_stores: Sequence[str]) -> None:
    """Limit the services' logs every minute, and clean once a day, until killed.

    Args:
        mlflow_stores: Options that name MLflow's database and artifacts; empty if MLflow must not be cleaned.
    """
    minute = 0
    while True:
        time.sleep(MINUTE_S)
        minute += 1
        for log in Home.from_env().logs.glob("*.log"):
            driver_log.bound(log)
        if minute % DAY == FIRST:
            clean(mlflow_stores)


def clean(mlflow_stores: Sequence[str], now: datetime | None = None) -> None:
    """Delete expired data of Airflow and MLflow, and report what could not be deleted.

    Args:
        mlflow_stores: As for :func:`main`.
        now: Current time (UTC).
    """
    now = now or datetime.now(UTC)
    try:
        airflow, logs = keep_days("airflow", LOGS_DAYS), keep_days("logs", LOGS_DAYS)
    except MillraceError as error:
        print(error, flush=True)
        return
    if airflow is not None:
        _run(_clean_airflow(now - timedelta(days=airflow)))
    if logs is not None:
        print(f"{delete_task_logs(task_logs(), now - timedelta(days=logs))} runs' logs deleted", flush=True)
    if mlflow_stores:
        _run((sys.executable, "-m", "mlflow", "gc", f"--older-than={REGRET}", *mlflow_stores))


def task_logs() -> Path:
    """Return the folder of Airflow's task logs."""
    named = os.environ.get("AIRFLOW__LOGGING__BASE_LOG_FOLDER")
    # Airflow reads its variables through configparser, which needs doubled percent signs
    return Path(named.replace("%%", "%")) if named else Path(os.environ["AIRFLOW_HOME"]) / "logs"


def delete_task_logs(folder: Path, before: datetime) -> int:
    """Delete the logs of runs whose last task started before a time (UTC); return the number of runs."""
    runs = (run for pattern in LOGS_OF_A_RUN for run in folder.glob(pattern))
    old = [run for run in runs if run.lstat().st_mtime < before.timestamp()]
    for run in old:
        shutil.rmtree(run, ignore_errors=True)
    return len(old)


def _clean_airflow(before: datetime) -> tuple[str, ...]:
    options = (
        f"--clean-before-timestamp={before.isoformat()}",
        f"--batch-size={BATCH_ROWS}",
        "--skip-archive",
        "--yes",
    )
    return (sys.executable, "-m", "airflow", "db", "clean", *options)


def _run(argv: Sequence[str]) -> None:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        print(f"{' '.join(argv)} ended with exit code {done.returncode}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
