"""The built-in script, run as a user would: by spark-submit, without Millrace."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from millrace.environment import spark_env
from millrace.lake.source_tables import SourceTable, is_table, query
from millrace.local.demo.comparison import compare, settled
from millrace.local.feeds.replay_clock import SCHEMA, Clock, Replay
from millrace.model.submit_options import conf_words
from millrace.places import PACKAGE
from tests.flights import flights

pytestmark = pytest.mark.spark

SCRIPT = PACKAGE / "pipelines" / "scripts" / "delays.py"
CONF = {
    **spark_env.driver_submit_conf(),
    "spark.ui.enabled": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture
def submit(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Start the script on the tables of ``tmp_path``; kill it with all its processes afterwards."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        folders = [f"--{name}={tmp_path / name}" for name in ("source", "results", "checkpoint")]
        command = [str(spark_env.spark_submit()), "--master", "local[2]", *conf_words(CONF), str(SCRIPT), *folders]
        with (tmp_path / "driver.log").open("ab") as log:
            started.append(
                subprocess.Popen(
                    [*command, "--wait-ms=0.1", "--max-files=8"],
                    stdout=log,
                    stderr=log,
                    cwd=tmp_path,
                    env={**os.environ, **spark_env.environment()},
                )
            )
        return started[-1]

    yield start
    for process in started:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill -9 the driver with its JVM and workers."""
    try:
        tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        tree = []
    for one in tree:
        try:
            one.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    process.wait()


def _await(done: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    while not done():
        assert process.poll() is None, log.read_text()[-3000:]
        time.sleep(0.3)


@pytest.mark.slow
def test_delays_after_a_kill_match_a_batch(tmp_path: Path, submit: Callable[[], subprocess.Popen[bytes]]) -> None:
    replay = Replay(Clock(fold_days=2, day_s=24, start_hour=6, days=0.6), flights())
    table = SourceTable(tmp_path / "source", SCHEMA, "flights")
    for number, rows in enumerate(replay):
        if rows.num_rows:
            table.append(rows, 2, "feed", number)
    results, log = tmp_path / "results", tmp_path / "driver.log"

    def some_results() -> bool:
        return is_table(results) and query("select count(*) as n from r", r=results)["n"][0].as_py() > 0

    first = submit()
    _await(some_results, first, log)
    assert not settled(tmp_path / "source", results), "killed before the end"
    _kill(first)
    second = submit()
    _await(lambda: settled(tmp_path / "source", results), second, log)
    found = compare(tmp_path / "source", results)
    assert found.equal, found
    assert found.closed_rows == replay.rows - 1
