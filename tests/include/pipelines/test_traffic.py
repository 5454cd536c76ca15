"""The example ``traffic``: its spec, and its query on real Spark, whose map changes while it runs."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest

from millrace.lake.deployments import DeploymentStore
from millrace.lake.source_tables import SourceTable, is_table, query
from millrace.lake.store import Lake
from millrace.local.feeds.fixes import SCHEMA, TRANSACTION, Fixes
from millrace.model.deployment import Deployment
from millrace.model.key_map import KeySample
from millrace.model.signals import Signals
from millrace.optimizers.conformance.builders import app_signals, signals
from millrace.optimizers.registry import all_of, problems
from millrace.pipelines.catalog import load
from millrace.pipelines.schema import FILE
from millrace.pipelines.spec_yaml import read_file
from millrace.places import PACKAGE
from millrace.run_folder.arguments import DriverArguments
from millrace.runtime.partition_link import PartitionLink
from millrace.windows import driver_link
from tests.jobs.driving import until

FOLDER = PACKAGE / "pipelines" / "examples" / "traffic"
FIXES = Fixes(seed=5, rows_per_s=150, shift_s=30)
KEYS = ("window_start", "window_end", "area")
WINDOWS = 5
"""Windows that contain a position."""


def test_example_loads_and_names_the_tables_of_its_feed() -> None:
    spec = load(FOLDER / "traffic.yaml", {"MILLRACE_HOME": "/somewhere"})
    assert problems([spec]) == [] and "waterfill" in all_of(spec)
    jsonschema.validate(read_file(FOLDER / "traffic.yaml"), json.loads(FILE.read_text("utf-8")))
    assert "--source=/somewhere/data/fixes" in spec.args


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module("traffic")
    driver_link.connect(None)


def expected(spark: Any, source: Path) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return what Spark's own windows make of all positions."""
    from pyspark.sql import functions as sf

    rows = spark.read.format("delta").load(str(source))
    found = rows.groupBy(sf.window("at", "5 minutes", "1 minute"), "area").agg(
        sf.count("*").alias("cars"), sf.sum((sf.col("speed") < 10).cast("long")).alias("queued"), sf.sum("speed")
    )
    return {(r["window"][0], r["window"][1], r["area"]): tuple(r)[2:] for r in found.collect()}


def found(spark: Any, results: Path) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return the rows of all micro-batches, added up."""
    rows = spark.read.format("delta").load(str(results)).groupBy(*KEYS)
    return {tuple(r)[:3]: tuple(r)[3:] for r in rows.sum("cars", "queued", "kmh").collect()}


def cars(results: Path) -> int:
    """Return the cars of all windows so far; this is asked often, so Spark is left alone."""
    return query("select sum(cars) as n from r", r=results)["n"][0].as_py() or 0 if is_table(results) else 0


@pytest.mark.spark
def test_query_follows_another_map_while_it_runs_and_counts_every_car_once(
    script: Any, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = load(FOLDER / "traffic.yaml", {"MILLRACE_HOME": str(tmp_path)})
    lake, told = Lake(tmp_path / "lake"), list[KeySample]()
    source, results = tmp_path / "data" / "fixes", tmp_path / "data" / "queues"
    table = SourceTable(source, SCHEMA, FIXES.content)
    current = DeploymentStore(lake).commit(spec.first_deployment(), None)
    arguments = DriverArguments(
        spec.name, spec.app, 1, 1, 4, 0, tmp_path, str(tmp_path / "lake"), 60, 120, 30, FOLDER / "traffic.py"
    )
    driver_link.connect(PartitionLink(arguments, told.append))
    monkeypatch.setattr("millrace.windows.partitioning.following.MOST_TIME", 10.0)  # a sample of every batch

    def feed(seconds: range) -> int:
        for number in seconds:
            table.append(FIXES.second(number), 4, TRANSACTION, number)
        return sum(FIXES.second(number).num_rows for number in seconds)

    def processed() -> bool:
        return ended() or cars(results) == WINDOWS * fed

    def ended() -> bool:
        return running is not None and running.done()

    running = None
    fed = feed(range(20))
    words = [arg for arg in spec.args if not arg.startswith(("--wait", "--load", "--trigger"))]
    monkeypatch.setattr(sys, "argv", ["traffic.py", *words, "--max-files=40", "--wait-ms=0.01", "--load-ms=0.1"])
    with ThreadPoolExecutor(1) as driver:
        try:
            running = driver.submit(script.main)
            until(processed, "the first positions")
            assert {sample.revision for sample in told} == {None} and {sample.workers for sample in told} == {4}
            current = decided(spec, current, told)
            DeploymentStore(lake).commit(current, 1)
            fed += feed(range(30, 50))  # other areas have most cars
            until(processed, "the positions after the map changed")
        finally:
            for running_query in spark.streams.active:
                running_query.stop()
    running.result()
    assert told[-1].revision == current.partitioning["areas"].revision == 2
    wanted, made = expected(spark, source), found(spark, results)
    assert made.keys() == wanted.keys() and len(made) > 500
    for key, (number, queued, kmh) in wanted.items():
        assert made[key][:2] == (number, queued) and made[key][2] == pytest.approx(kmh, rel=1e-9)


@pytest.mark.spark
def test_report_agrees_with_sparks_own_aggregates(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions as sf

    monkeypatch.syspath_prepend(FOLDER)
    report = importlib.import_module("traffic_report")
    positions = spark.createDataFrame(pa.concat_tables(FIXES.second(number) for number in range(20)).to_pandas())
    cars = positions.groupBy("area").agg(sf.count("*"), sf.sum((sf.col("speed") < 10).cast("long")))
    assert sorted(map(tuple, report.queues(positions, 3).collect())) == sorted(map(tuple, cars.collect()))
    windows = positions.groupBy(sf.window("at", "5 minutes", "1 minute")).agg(sf.count_distinct("area"))
    assert sorted(map(tuple, report.areas(positions).collect())) == sorted(map(tuple, windows.collect()))

    top, number, _ = max(map(tuple, cars.collect()), key=lambda of: of[1])
    of_top = [row["speed"] for row in positions.where(sf.col("area") == top).orderBy("at", "row_id").collect()]
    shown = [
        (row["window"]["start"], row["kmh"]) for row in report.speeds(positions).where(f"area = '{top}'").collect()
    ]
    assert [start for start, _ in shown] == list(range(0, number - report.LAST + 1, report.STEP))
    for start, kmh in shown:
        assert kmh == pytest.approx(sum(of_top[start : start + report.LAST]) / report.LAST, rel=1e-9)


def decided(spec: Any, current: Deployment, told: list[KeySample]) -> Deployment:
    """Return the Deployment after what the spec's optimizer proposes for the last sample."""
    seen: Signals = replace(signals(replace(app_signals(4, 1.0, None), app=spec.app)), keys=(told[-1],))
    proposal, _ = all_of(spec)["waterfill"].propose(seen, current, {})
    assert proposal.changes, proposal.sentence
    return current.with_changes(proposal.changes)
