"""The example ``wordcount``: its spec, and its three scripts run as a user would, by spark-submit without Millrace."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import jsonschema
import psutil
import pytest

from benchmarks.graph.workloads import Difference, compare_counts
from millrace.environment import spark_env
from millrace.lake.source_tables import SourceTable, is_table, query
from millrace.local.feeds.sentences import CONTENT, SCHEMA, sentences
from millrace.model.submit_options import conf_words
from millrace.optimizers.registry import problems
from millrace.pipelines.catalog import load
from millrace.pipelines.schema import FILE
from millrace.pipelines.spec_yaml import read_file
from millrace.places import PACKAGE

EXAMPLE = PACKAGE / "pipelines" / "examples" / "wordcount" / "wordcount.yaml"
CONF = {
    **spark_env.driver_submit_conf(),
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "2",
}


def test_example_loads_with_three_apps_that_feed_each_other() -> None:
    spec = load(EXAMPLE, {"MILLRACE_HOME": "/somewhere"})
    assert problems([spec]) == []
    jsonschema.validate(read_file(EXAMPLE), json.loads(FILE.read_text("utf-8")))
    args = [dict(arg.split("=", 1) for arg in app.args) for app in spec.app_specs.values()]
    assert [a["--results"] for a in args[:-1]] == [a["--source"] for a in args[1:]]
    assert len({a["--checkpoint"] for a in args}) == 3


@pytest.fixture
def submit(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Start a script of the example on the tables of ``tmp_path``; kill all of them afterwards."""
    started: list[subprocess.Popen[bytes]] = []

    def start(app: str) -> subprocess.Popen[bytes]:
        spec = load(EXAMPLE, {"MILLRACE_HOME": str(tmp_path)}).app_specs[app]
        command = [str(spark_env.spark_submit()), "--master", "local[2]", *conf_words(CONF), spec.script, *spec.args]
        options = ["--wait-ms=0.1", "--max-files=3", "--trigger-s=0"]
        with (tmp_path / f"{app}.log").open("ab") as log:
            env = {**os.environ, **spark_env.environment()}
            started.append(subprocess.Popen([*command, *options], stdout=log, stderr=log, cwd=tmp_path, env=env))
        return started[-1]

    yield start
    for process in started:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill -9 the driver with its JVM and workers."""
    if process.poll() is None:
        for one in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
            with suppress(psutil.NoSuchProcess):
                one.kill()
    process.wait()


@pytest.mark.spark
@pytest.mark.slow
def test_counts_after_a_kill_match_a_batch(tmp_path: Path, submit: Callable[[str], subprocess.Popen[bytes]]) -> None:
    data = tmp_path / "data"
    table = SourceTable(data / "sentences", SCHEMA, CONTENT)
    apps = {app: submit(app) for app in ("clean", "split", "count")}

    def until(done: Callable[[], bool]) -> None:
        while not done():
            for app, process in apps.items():
                assert process.poll() is None, (tmp_path / f"{app}.log").read_text()[-3000:]
            time.sleep(0.5)

    for number in range(6):
        table.append(sentences(number * 50, 50), 2, "test", number)
    until(
        lambda: is_table(data / "words") and query("select count(*) as n from w", w=data / "words")["n"][0].as_py() > 0
    )
    kill(apps["split"])
    for number in range(6, 12):
        table.append(sentences(number * 50, 50), 2, "test", number)
    apps["split"] = submit("split")
    until(lambda: compare_counts(data).lost == 0)
    assert compare_counts(data) == Difference(0, 0)
