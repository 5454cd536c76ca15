"""A Spark standalone cluster of one master and one worker, of any version of Spark."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from millrace.environment import spark_env
from tests.jobs.driving import until


@contextmanager
def standalone(folder: Path, home: Path | None = None, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run a cluster with 4 cores and yield its address.

    Args:
        folder: Folder of its logs and of its executors.
        home: Spark's folder; by default that of this environment.
        environment: Variables of its processes; by default those of this environment's Spark.
    """
    spark_class, started = (home or spark_env.spark_home()) / "bin" / "spark-class", []
    env = {**os.environ, **(spark_env.environment() if environment is None else environment)}

    def start(name: str, *args: str) -> Path:
        log = folder / f"{name}.log"
        argv = [str(spark_class), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", "--webui-port", "0", *args]
        with log.open("wb") as output:
            started.append(subprocess.Popen(argv, env=env, stdout=output, stderr=subprocess.STDOUT))
        return log

    try:
        log = start("master.Master", "--port", "0")
        until(lambda: re.search(r"Starting Spark master at (spark://\S+)", log.read_text()), "a master")
        address = re.search(r"Starting Spark master at (spark://\S+)", log.read_text())[1]
        work = str(folder / "work")
        log = start("worker.Worker", "--cores", "4", "--memory", "4g", "--work-dir", work, address)
        until(lambda: "Successfully registered with master" in log.read_text(), "a worker")
        yield address
    finally:
        for process in started:
            process.kill()
            process.wait()
