"""Nexmark's examples: their specs, and each query's graph on real Spark against a batch computation."""

from __future__ import annotations

import importlib
import json
import runpy
import sys
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from benchmarks.graph.nexmark_results import QUERIES, expected, found
from millrace.lake.source_tables import SourceTable, query
from millrace.local.feeds.nexmark import TRANSACTION, NexmarkFeed, Steps
from millrace.local.feeds.nexmark_events import SCHEMA, NexmarkEvents
from millrace.model.spec import PipelineSpec
from millrace.optimizers.registry import problems
from millrace.pipelines.catalog import load
from millrace.pipelines.schema import FILE
from millrace.pipelines.spec_yaml import read_file
from millrace.places import PACKAGE
from tests.jobs.driving import until

FOLDER = PACKAGE / "pipelines" / "examples" / "nexmark"
FEED = NexmarkFeed(NexmarkEvents(3), Steps.parse("100:40,20:10,300:20"), tick_s=2.0)
GRAPHS = {
    "q1": {"bids": [], "euros": ["bids"]},
    "q2": {"bids": [], "selected": ["bids"]},
    "q3": {"persons": [], "auctions": [], "suggestions": ["persons", "auctions"]},
    "q5": {"bids": [], "counts": ["bids"], "hottest": ["counts"]},
    "q8": {"persons": [], "auctions": [], "new_users": ["persons", "auctions"]},
}


def loaded(name: str, home: Path) -> PipelineSpec:
    return load(FOLDER / f"{name}.yaml", {"MILLRACE_HOME": str(home)})


def tables(args: tuple[str, ...]) -> tuple[set[str], str]:
    """Return the tables that an app reads, and the one that it writes."""
    given = dict(word.removeprefix("--").split("=", 1) for word in args)
    return {given[key] for key in ("source", "persons", "auctions") if key in given}, given["results"]


@pytest.mark.parametrize("name", QUERIES)
def test_example_loads_as_the_graph_of_its_query(name: str, tmp_path: Path) -> None:
    spec = loaded(name, tmp_path)
    assert spec.name == f"nexmark_{name}" and spec.budget is not None and problems([spec]) == []
    jsonschema.validate(read_file(FOLDER / f"{name}.yaml"), json.loads(FILE.read_text("utf-8")))
    read = {app: tables(spec.apps[app].args or ()) for app in spec.apps}
    events = str(tmp_path / "data" / "nexmark" / "events")
    for app, producers in GRAPHS[name].items():
        assert read[app][0] == ({read[producer][1] for producer in producers} or {events}), app
    assert set(read) == set(GRAPHS[name])


class Graph:
    """The apps of an example, run one after the other in this process."""

    def __init__(self, name: str, home: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> None:
        self.spec, self.more, self._monkeypatch = loaded(name, home), more, monkeypatch
        self.events = home / "data" / "nexmark" / "events"
        self.results = self.events.parent / name / "results"
        self.table = SourceTable(self.events, SCHEMA, FEED.content)
        monkeypatch.syspath_prepend(FOLDER)

    def feed(self, ticks: range) -> None:
        for number in ticks:
            self.table.append(FEED.tick(number), 2 if number < FEED.clock.ticks else 1, TRANSACTION, number)

    def run(self, *, downstream_first: bool = False) -> None:
        for app in sorted(self.spec.apps, key=list(self.spec.apps).index, reverse=downstream_first):
            self.run_app(app, "--once")

    def run_app(self, name: str, *more: str) -> None:
        app = self.spec.app_specs[name]
        words = [app.script, *app.args, "--wait-ms=0", "--trigger-s=0", *self.more, *more]
        self._monkeypatch.setattr(sys, "argv", words)
        runpy.run_path(app.script, run_name="__main__")


def batches(graph: Graph) -> dict[str, int]:
    """Return the micro-batches of each app so far."""
    folder = graph.results.parent / "checkpoints"
    return {app: len(list((folder / app / "commits").glob("[0-9]*"))) for app in graph.spec.apps}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("q1", ("--wait-ms=0.01",)),
        ("q2", ()),
        ("q3", ("--max-files=20",)),
        ("q5", ("--max-files=9",)),
        ("q8", ("--wait-ms=0.01", "--max-files=20")),
    ],
    ids=list(QUERIES),
)
def test_results_of_several_micro_batches_match_a_batch(
    name: str, more: tuple[str, ...], spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, half = Graph(name, tmp_path, monkeypatch, *more), FEED.clock.ticks // 2
    graph.run(downstream_first=True)  # on empty tables, some of which the consumer creates
    assert not found(name, graph.results)
    graph.feed(range(half))
    graph.run()
    graph.feed(range(half, FEED.clock.ticks + 1))
    graph.run()

    wanted, results = expected(name, graph.events), found(name, graph.results)
    assert (wanted - results, results - wanted) == (Counter(), Counter())
    assert len(wanted) > 10 and max(wanted.values()) == 1
    assert min(batches(graph).values()) > 2, batches(graph)


@pytest.mark.spark
def test_apps_run_next_to_each_other_until_stopped(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, running = Graph("q1", tmp_path, monkeypatch), []
    with ThreadPoolExecutor(2) as apps:
        try:
            for name in reversed(graph.spec.apps):
                running.append(apps.submit(graph.run_app, name))
                until(lambda: ended(running) or len(spark.streams.active) == len(running), f"query of {name}")
            graph.feed(range(3))
            wanted = expected("q1", graph.events)
            until(lambda: ended(running) or found("q1", graph.results) == wanted, "results")
            assert not ended(running)
        finally:
            for stream in spark.streams.active:
                stream.stop()
    assert [app.result() for app in running] == [None, None]


def ended(running: list[Future[None]]) -> bool:
    return any(app.done() for app in running)


@pytest.mark.spark
def test_table_that_several_apps_create_at_once_exists_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    shared = importlib.import_module("nexmark_app")
    columns = shared.StructType.fromDDL(shared.COUNT)
    with ThreadPoolExecutor(4) as apps:
        list(apps.map(lambda n: shared.create(spark, str(tmp_path / str(n % 3)), columns), range(12)))
    for n in range(3):
        assert query("select * from t", t=tmp_path / str(n)).column_names == columns.fieldNames()
