"""A user's script on a Spark standalone cluster of one master and one worker, started here."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from include.local.stack import spark_env
from include.run_folder.driver_records import DriverState
from tests.jobs.driving import Driving, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    spark_class, started = spark_env.spark_home() / "bin" / "spark-class", []

    def start(name: str, *args: str) -> Path:
        log = tmp_path / f"{name}.log"
        env = {**os.environ, **spark_env.environment()}
        argv = [str(spark_class), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", "--webui-port", "0", *args]
        with log.open("wb") as output:
            started.append(subprocess.Popen(argv, env=env, stdout=output, stderr=subprocess.STDOUT))
        return log

    try:
        log = start("master.Master", "--port", "0")
        until(lambda: re.search(r"Starting Spark master at (spark://\S+)", log.read_text()), "a master")
        address = re.search(r"Starting Spark master at (spark://\S+)", log.read_text())[1]
        folder = str(tmp_path / "work")
        log = start("worker.Worker", "--cores", "3", "--memory", "2g", "--work-dir", folder, address)
        until(lambda: "Successfully registered with master" in log.read_text(), "a worker")
        yield address
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_script_on_a_cluster_runs_on_its_slots(master: str, tmp_path: Path) -> None:
    driver = Driving(tmp_path, "endings.py", "unawaited", str(tmp_path), master=master)
    try:
        assert driver.process.wait() == 0, driver.log.read_text()[-3000:]
    finally:
        driver.process.kill()
    assert driver.record().state is DriverState.COMPLETED and driver.record().last_commit_at is not None
    executors = list((tmp_path / "work").glob("app-*/*"))
    assert executors, "nothing ran on the worker"
    assert re.search(
        r"with 2 core\(s\)|--cores 2|\"--cores\" \"2\"", (tmp_path / "worker.Worker.log").read_text()
    ) or any('--cores" "2"' in (e / "stderr").read_text() for e in executors)
