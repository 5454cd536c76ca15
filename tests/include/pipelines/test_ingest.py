"""The example ``ingest``: its spec, and its function on real Spark against a batch computation."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from millrace.fleet.user_function import load as load_function
from millrace.lake.source_tables import SourceTable, query
from millrace.local.feeds.many_tables import SCHEMA, TRANSACTION, ManyTables
from millrace.optimizers.registry import problems
from millrace.pipelines.catalog import load
from millrace.pipelines.schema import FILE
from millrace.pipelines.spec_yaml import read_file
from millrace.places import PACKAGE

EXAMPLE = PACKAGE / "pipelines" / "examples" / "ingest" / "ingest.yaml"
FEED = ManyTables(tables=3, rows_per_s=60.0, days=1.0, day_s=12.0, tick_s=2.0, seed=3)
EXPECTED = "select *, cast(event_time as date) as day from t where key is not null order by row_id"


def test_example_loads_as_a_fleet_of_one_to_three_drivers() -> None:
    spec = load(EXAMPLE, {"MILLRACE_HOME": "/somewhere"})
    assert problems([spec]) == [] and spec.fleet is not None
    jsonschema.validate(read_file(EXAMPLE), json.loads(FILE.read_text("utf-8")))
    assert (spec.fleet.nodes.min, spec.fleet.nodes.start, spec.fleet.nodes.max) == (1, 2, 3)
    assert spec.fleet.streams.folders == f"{spec.fleet.options['landing']}/*" == "/somewhere/data/landing/*"


def test_busiest_hour_of_the_feed_needs_a_third_driver_and_the_night_does_not() -> None:
    spec, source = load(EXAMPLE, {"MILLRACE_HOME": "/somewhere"}), ManyTables()
    assert spec.fleet is not None and spec.admission is not None
    node = spec.fleet.node.slots * spec.admission.target_utilisation
    wait_s = spec.fleet.options["wait_ms"] / 1000
    rows_per_s = (source.total[1:] - source.total[:-1]).sum(axis=1) / source.tick_s
    fixed = 0.5  # slots that the batches of 30 queries keep busy without their rows' waits, at least
    assert rows_per_s.max() * wait_s + fixed > 2 * node and rows_per_s.min() * wait_s + fixed < node


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    """The tables that the feed fills, without its waits."""
    for index, name in enumerate(FEED.names):
        table = SourceTable(tmp_path / "landing" / name, SCHEMA, FEED.content)
        for tick in range(FEED.clock.ticks):
            table.append(FEED.rows(index, tick), 1, TRANSACTION, tick)
    return tmp_path / "landing"


@pytest.mark.spark
def test_ingested_tables_match_a_batch(spark: Any, landing: Path, tmp_path: Path) -> None:
    function = load_function(EXAMPLE.with_name("ingest.py"))
    options = {"landing": str(landing), "bronze": str(tmp_path / "bronze"), "wait_ms": 1}
    for name in FEED.names:
        writer = function(spark, name, options).queryName(name).trigger(availableNow=True)
        begun = time.monotonic()
        writer.option("checkpointLocation", str(tmp_path / "checkpoints" / name)).start().awaitTermination()
        expected, found = (
            query(EXPECTED, t=landing / name),
            query("select * from t order by row_id", t=tmp_path / "bronze" / name),
        )
        assert found.to_pylist() == expected.to_pylist()
        assert 0 < found.num_rows < FEED.total[-1, FEED.names.index(name)]
        assert time.monotonic() - begun > found.num_rows / 2 * 0.001, "each row waits, on two slots"
