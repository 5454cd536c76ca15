"""An Airflow for the tests. The conftests import it before Airflow, which reads its settings at import."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

assert "airflow" not in sys.modules or "AIRFLOW_HOME" in os.environ, "import tests.airflow_home before airflow"
if os.environ.get("MILLRACE_TEST_AIRFLOW_HOME") is None:
    _home = Path(tempfile.mkdtemp(prefix="airflow-"))
    atexit.register(shutil.rmtree, _home, ignore_errors=True)
    os.environ |= {
        "MILLRACE_TEST_AIRFLOW_HOME": str(_home),
        "AIRFLOW_HOME": str(_home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "false",
        "AIRFLOW__API__BASE_URL": "http://127.0.0.1:8080",
        "AIRFLOW__API_AUTH__JWT_SECRET": "tests only, " * 8,
        "AIRFLOW__API__SECRET_KEY": "tests only",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "AIRFLOW_CONN_SPARK_DEFAULT": "spark://local",
    }
    for name in ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__CORE__EXECUTION_API_SERVER_URL"):
        os.environ.pop(name, None)


@pytest.fixture(scope="session")
def airflow_db() -> Iterator[Path]:
    """A migrated metadata database, shared by all tests of the session."""
    from airflow.utils.db import initdb

    initdb()
    yield Path(os.environ["AIRFLOW_HOME"])


SCRIPT = """\
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
writer = rows.writeStream.format("delta").option("checkpointLocation", sys.argv[2]).trigger(processingTime="1 second")
writer.start(sys.argv[1]).awaitTermination()
"""

SPEC = """\
name: tiny
description: a few rows a second
script: tiny.py
args: ["${MILLRACE_HOME}/data/tiny", "${MILLRACE_HOME}/data/checkpoints/tiny"]
submit: {master: local}
slots: {min: 1, max: 4, start: 2}
memory_mb: 512
mode: MODE
period_s: 5
approval_expires_s: 3600
profile:
  source: ${MILLRACE_HOME}/data/source
  time_column: time
  stream: [origin]
"""


def write_pipeline(folder: Path, mode: str = "auto") -> None:
    """Create the pipeline ``tiny`` in a folder of specs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tiny.py").write_text(SCRIPT)
    (folder / "tiny.yaml").write_text(SPEC.replace("MODE", mode))


@pytest.fixture
def millrace_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate home with the pipeline ``tiny`` and the built-in ones."""
    write_pipeline(tmp_path / "specs")
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MILLRACE_PIPELINES", str(tmp_path / "specs"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"
