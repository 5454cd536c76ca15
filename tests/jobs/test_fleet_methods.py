"""The published methods of admission on one running fleet: each moves its streams, and no row is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.algorithms import flow
from millrace.lake.source_tables import is_table
from millrace.lake.store import Lake
from millrace.model.deployment import INGEST, SLOTS
from tests.include.runtime.telemetry.arriving import Arrivals, arriving, files, ids, table
from tests.jobs.adapting import Adapting, adapting
from tests.jobs.driving import SCRIPTS, until

pytestmark = pytest.mark.platform

CAPACITY, PERIOD_S, EVERY_S = 60, 10, 2.0
"""Rows per second that a node takes, length of the periods that are counted, and seconds between two commits."""
FULL = {"a": 30.0, "b": 22.0, "c": 22.0, "d": 4.0, "e": 4.0}
"""Rows per second: two of the first three fit on one node; all three do not."""
LIGHT = {"a": 24.0, "b": 16.0, "c": 4.0, "d": 6.0, "e": 5.0}
"""The first four fit on one node, unless the rate of one of them rises."""
CROWDED = {"a": 0, "b": 0, "c": 0, "d": 0, "e": 1}
YAML = """\
name: fleet
fleet:
  script: {scripts}/fleet.py
  checkpoints: {folder}/checkpoints
  streams: {{folders: "{folder}/in/*"}}
  nodes: 2
  node: {{slots: 2, memory_mb: 1024, capacity: {capacity}}}
  options: {{root: "{folder}", trigger: 4 seconds}}
apps:
  totals:
    script: {scripts}/totals.py
    args: [{folder}/feed, {folder}/totals.json, {folder}/totals_checkpoint, "0"]
    slots: {{min: 1, max: 2, start: 1}}
admission: {admission}
owners: {{slots: drfm}}
submit:
  master: local
  conf: {{spark.driver.extraJavaOptions: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}}
max_parallelism: 2
mode: auto
period_s: 10
guards: {{cool_down_s: 0}}
verification: {{window_s: 0}}
quality: {{max_age_s: 600, max_gap_s: 600}}
ready_deadline_s: 600
"""


@dataclass
class Fleet:
    """The fleet that all tests share.

    Attributes:
        pipeline: It is evaluated under the spec of each test.
        folder: Of its streams and results.
        feeds: Ends the streams.
        arrivals: Rate of each stream.
    """

    pipeline: Adapting
    folder: Path
    feeds: ExitStack
    arrivals: dict[str, Arrivals] = field(default_factory=dict)

    def feed(self, name: str, rows_per_s: float) -> None:
        """Let a stream arrive at this rate; a new one begins."""
        if name in self.arrivals:
            self.arrivals[name].rows_per_s = rows_per_s
        else:
            target = arriving(table(self.folder / "in" / name), rows_per_s, EVERY_S)
            self.arrivals[name] = self.feeds.enter_context(target)

    def under(
        self,
        options: Mapping[str, Any],
        rates: Mapping[str, float],
        ingest: Mapping[str, int] = CROWDED,
        **admission: Any,
    ) -> Adapting:
        """Return the pipeline with a method, at these rates, with streams where a person put them.

        Forecasts of other rates are forgotten before that.
        """
        if any(self.arrivals[name].rows_per_s != rate for name, rate in rates.items()):
            for name, rate in rates.items():
                self.feed(name, rate)
            self.pipeline.edit(text(self.folder, {"method": "ard"}))
            settled(self.pipeline)
        self.pipeline.edit(text(self.folder, options, **admission))
        self.pipeline.force(ingest={**self.pipeline.deployment().ingest, **ingest})
        return self.pipeline

    def moved(self) -> dict[str, int]:
        """Evaluate until streams move, wait until they run on their new nodes, and return those."""
        pipeline = self.pipeline
        before, batches = pipeline.deployment().ingest, self.batches()
        pipeline.until(lambda: pipeline.deployment().ingest != before)
        print(*(decision.sentence for decision in pipeline.decisions), sep="\n")
        changed = {change.field for decision in pipeline.decisions for change in decision.changes}
        assert changed == {INGEST}
        after = pipeline.deployment().ingest
        moved = {name: node for name, node in after.items() if before.get(name) != node}
        for name, node in moved.items():
            at = (name, f"node{node}")
            until(lambda at=at: self.batches().get(at, 0) > batches.get(at, 0), f"a batch of {at}")
        return moved

    def batches(self) -> dict[tuple[str, str], int]:
        """Return the number of batches by stream and node."""
        sql = "select query, app, count(*) as n from batches where batch_id >= 0 group by query, app"
        rows = Lake(self.folder / "lake").rows(sql, "telemetry/batches")
        return {(row["query"], row["app"]): row["n"] for row in rows}


def text(folder: Path, options: Mapping[str, Any], **admission: Any) -> str:
    """Return the pipeline's YAML."""
    # nodes are not emptied while there is room elsewhere: both always run
    given = {"report_s": PERIOD_S, "options": {"drains": 0, **options}, **admission}
    return YAML.format(scripts=SCRIPTS, folder=folder, capacity=CAPACITY, admission=flow(given))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with pytest.MonkeyPatch.context() as monkeypatch, ExitStack() as feeds:
        monkeypatch.setenv("MILLRACE_HOME", str(folder))
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
        files(folder / "feed", "json")(pa.table({"id": range(10)}), 0)
        arrivals = {
            name: feeds.enter_context(arriving(table(folder / "in" / name), rate, EVERY_S))
            for name, rate in FULL.items()
        }
        until(lambda: all(is_table(folder / "in" / name) for name in FULL), "tables of the streams")
        with adapting(folder / "fleet.yaml", text(folder, {"method": "ard"})) as pipeline:
            until(lambda: all(is_table(folder / "out" / name) for name in FULL), "rows of all streams")
            shared = Fleet(pipeline, folder, feeds, arrivals)
            yield shared
            feeds.close()
            for name, arrived in shared.arrivals.items():
                rows = list(range(arrived.rows[-1]))
                until(lambda name=name, rows=rows: ids(folder / "out" / name) == rows, f"all rows of {name}, once")


@pytest.mark.parametrize(("method", "moves", "stays"), [("ard", "a", "d"), ("ari", "d", "a")])
def test_overloaded_node_gives_away_its_fastest_or_slowest_stream(
    fleet: Fleet, method: str, moves: str, stays: str
) -> None:
    fleet.under({"method": method}, FULL)
    moved = fleet.moved().keys()
    assert moves in moved and stays not in moved


def test_streams_are_packed_from_scratch_by_best_fit(fleet: Fleet) -> None:
    """The largest stream gets the next one, and the third does not fit there; no node was overloaded before."""
    fleet.under({"method": "par"}, FULL, {"a": 0, "d": 0, "e": 0, "b": 1, "c": 1})
    fleet.moved()
    after = fleet.pipeline.deployment().ingest
    assert sorted(after[name] == after["a"] for name in "bc") == [False, True]


def test_drf_gives_away_the_stream_that_rises(fleet: Fleet) -> None:
    pipeline = fleet.under({"method": "drf", "alpha": 0.8, "gamma": 0.3}, LIGHT)
    settled(pipeline, 1)
    assert pipeline.deployment().ingest == CROWDED
    fleet.feed("c", 22.0)
    assert fleet.moved().keys() == {"c"}


def test_drfm_gives_away_the_stream_whose_metadata_announce_a_rise(fleet: Fleet) -> None:
    soon = int(time.time() // PERIOD_S) + 12
    cycle = {"minimum": LIGHT["d"], "maximum": 40, "high_duration": 1000, "low_duration": 1000, "phase": soon}
    fleet.under({"method": "drfm", "ahead": 24}, LIGHT, streams={"d": {**cycle, "transition": "jump"}})
    assert fleet.moved().keys() == {"d"}


def test_new_stream_avoids_a_node_that_is_late(fleet: Fleet) -> None:
    """By best fit it would go to the node that has less room."""
    pipeline = fleet.under({"method": "drfm", "latency_s": 1}, LIGHT, {"a": 0, "b": 0, "c": 1, "d": 1, "e": 1})
    held = fleet.folder / "held-b"
    held.touch()
    until(lambda: lateness(pipeline) > CAPACITY, "a node that is late")
    fleet.feed("f", 3.0)
    moved = fleet.moved()
    held.unlink()
    assert moved == {"f": 1}


def test_app_behind_the_fleet_gets_its_query_workers(fleet: Fleet) -> None:
    pipeline = fleet.under({"method": "drfm"}, LIGHT, sizing={"query_s": 0.02, "query_app": "totals"})
    pipeline.until(lambda: pipeline.deployment().apps["totals"].slots == 2)
    changes = [change for decision in pipeline.decisions for change in decision.changes if change.field == SLOTS]
    assert [(change.app, change.before, change.value) for change in changes] == [("totals", 1, 2)]
    assert [change.error for change in pipeline.changes] == [None]


def settled(pipeline: Adapting, plans: int = 4) -> None:
    """Evaluate until there were as many plans, each of at least one more period."""
    pipeline.until(lambda: sum(p.admission is not None for d in pipeline.decisions for p in d.proposals) >= plans)


def lateness(pipeline: Adapting) -> float:
    """Evaluate, and return the rows that streams are behind with."""
    pipeline.evaluate()
    last = pipeline.decisions[-1].signals if pipeline.decisions else None
    return 0.0 if last is None or last.streams is None else sum((last.streams.waiting or {}).values())
