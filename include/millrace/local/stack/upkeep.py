"""Keeps the stack's own Airflow, MLflow and logs from growing for ever.

Airflow's tasks are barred from its database, and nobody else's Airflow is to be cleaned: so this runs beside the
stack's services, and nowhere else.

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
from millrace.local.stack.home import Home
from millrace.model.errors import MillraceError
from millrace.wiring import LOGS_DAYS, keep_days

MINUTE_S = 60.0
FIRST = 60
"""Minutes after the start until the first cleaning: it takes a processor for some seconds, and a demo has none left."""
DAY = 24 * 60
BATCH_ROWS = 5_000
"""Rows that are deleted at once: those who wait for the database meanwhile wait for seconds at most."""
REGRET = "7d"
"""How long a run that was deleted in MLflow can be restored."""
LOGS_OF_A_RUN = ("dag_id=*/run_id=*", "dag_processor/*-*-*")


def main(mlflow_stores: Sequence[str]) -> None:
    """Bound the services' logs each minute, and clean once a day, until killed.

    Args:
        mlflow_stores: Options that name MLflow's database and artifacts; none where it is not ours to clean.
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
    """Delete what Airflow and MLflow have kept long enough, and say what could not be.

    Args:
        mlflow_stores: As of :func:`main`.
        now: The present (UTC).
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
    """Return the folder of the logs of Airflow's tasks."""
    named = os.environ.get("AIRFLOW__LOGGING__BASE_LOG_FOLDER")
    # Airflow reads its variables through configparser, where a percent sign is doubled
    return Path(named.replace("%%", "%")) if named else Path(os.environ["AIRFLOW_HOME"]) / "logs"


def delete_task_logs(folder: Path, before: datetime) -> int:
    """Delete the logs of runs that began their last task before a time (UTC), and return how many runs."""
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
