"""The same skew with a gigabyte of state behind a slow store, so a partition that moves has a lot to load."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.elastic.cluster import Cluster
from benchmarks.elastic.methods import Method
from benchmarks.elastic.pipeline import READ_S, Pipeline, wait_until
from benchmarks.elastic.scripts.busy_state import ROWS_A_BATCH
from benchmarks.placement.skew import SteadyRun, at_rest, measure, skewed
from millrace.environment import spark_env
from millrace.local.stack import java

SOURCE = Path(__file__).with_name("SlowFileSystem.java")
CONF: Mapping[str, str] = {
    "spark.hadoop.fs.slow.impl": SOURCE.stem,
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
FILLED_S = 900.0
"""Longest time until the state has its full size."""


def has_compiler() -> bool:
    """Return whether this machine can compile the slow store: a JDK, not a JRE."""
    return _compiler() is not None


def run_large_state(cluster: Cluster, name: str, method: Method, batches: int, period_s: float) -> SteadyRun:
    """Return a method's result once executors have grown from one to four and the state to its size.

    Args:
        cluster: The cluster.
        name: Name of the run, a folder.
        method: The placement method.
        batches: Number of batches to measure.
        period_s: Seconds between two evaluations.
    """
    ballast, jar = f"--ballast={cluster.root / name / 'ballast'}", slow_store(cluster.root)
    with skewed(cluster, name, method, ballast, conf=CONF, jars=(str(jar),), scheme="slow:") as pipeline:
        wait_until(lambda: _filled(pipeline), "a gigabyte of state", FILLED_S, READ_S)
        with at_rest(pipeline, method, period_s) as placed:
            return measure(placed, batches)


def slow_store(folder: Path) -> Path:
    """Compile the slow store, once per folder, and return its jar."""
    jar, classes = folder / "slow-store.jar", folder / "slow-store"
    if not jar.exists():
        compiler = _compiler()
        path = f"{spark_env.spark_home() / 'jars'}/*"
        subprocess.run([str(compiler), "-cp", path, "-d", str(classes), str(SOURCE)], check=True, capture_output=True)
        with zipfile.ZipFile(jar, "w") as archive:
            for file in classes.glob("*.class"):
                archive.write(file, file.name)
    return jar


def _compiler() -> str | None:
    found, _ = java.find()
    return None if found is None else shutil.which(found.home / "bin" / "javac") or shutil.which("javac")


def _filled(pipeline: Pipeline) -> bool:
    """Return whether the newest batch contained exactly the rows of the load."""
    newest = pipeline.batches()[-1:]
    return bool(newest) and newest[0].rows_in == ROWS_A_BATCH
