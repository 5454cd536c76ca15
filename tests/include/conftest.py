"""Set-up shared by all tests of a process: a Spark session with Delta, a database of MLflow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SLOTS = 4


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    from pyspark.sql import SparkSession

    from millrace.environment.spark_env import driver_submit_conf, environment

    os.environ.update({k: v for k, v in environment().items() if k.startswith(("PYSPARK", "SPARK"))})
    builder = SparkSession.builder.master(f"local[{SLOTS}]").appName("tests")
    conf = driver_submit_conf() | {
        "spark.ui.enabled": "false",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.noDataProgressEventInterval": "200",
        "spark.driver.memory": "1g",
    }
    session = builder.config(map=conf).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    """Yield Spark's JVM without a session."""
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway(SparkConf(loadDefaults=False))
    yield gateway.jvm
    gateway.shutdown()
    gateway.proc.kill()
    gateway.proc.wait()


@pytest.fixture(scope="session")
def mlflow_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an empty database: creating it takes longer than most tests."""
    from mlflow import MlflowClient

    folder = tmp_path_factory.mktemp("mlflow")
    MlflowClient(f"sqlite:///{folder / 'mlflow.db'}").search_experiments()
    shutil.copy(folder / "mlflow.db", folder / "empty.db")
    return folder


@pytest.fixture
def mlflow_uri(mlflow_home: Path, tmp_path: Path) -> str:
    """An empty database for each test."""
    shutil.copy(mlflow_home / "empty.db", tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"
