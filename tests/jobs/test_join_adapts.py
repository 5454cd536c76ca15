"""A join whose load rises and falls: esj gives it workers and executors, sheds, and removes both; no pair is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from millrace.lake.source_tables import SourceTable, query
from millrace.lake.store import Lake
from millrace.model.deployment import JOIN_WORKERS, SHED_RATIO, SLOTS
from tests.include.runtime.telemetry.arriving import repeating
from tests.jobs.adapting import ON_CLUSTER, adapting, embedded_cluster
from tests.jobs.driving import until
from tests.jobs.join_streams import SCHEMA, Tuple, append, pairs

pytestmark = pytest.mark.platform

WITHIN_S, CHUNK_S = 30, 5
"""Distance of two tuples that match, and event time of a commit, seconds."""
LOW, HIGH, TOO_HIGH = 1, 8, 25
"""Tuples per second and stream. The window of both is 60 times as many; a worker can keep 200."""
FIRST, MOST = 2, 4
"""Workers for 4 rows/s at 40 % utilisation, and the most allowed."""
YAML = """\
name: near
join:
  streams:
    r: {{source: "{folder}/r", time: at, columns: [id, key]}}
    s: {{source: "{folder}/s", time: at, columns: [id, key]}}
  tasks:
    near: {{left: r, right: s, on: [key], within_s: {within_s}}}
  results: {folder}/results
  checkpoint: {folder}/checkpoint
  capacity: 200
  expected_rows_per_s: 4
  workers: {{min: 1, max: {most}, start: 1}}
  block: 10
  options: {{lasts_s: 0, sheds_s: 0, cool_s: 5, ahead: 0, block_size: literal}}
owners: {{slots: esj}}
submit: {submit}
slots: {{min: 1, max: {most}, start: 1}}
executor: {{cores: 1, memory_mb: 512}}
max_parallelism: {most}
mode: auto
period_s: 5
guards: {{cool_down_s: 0}}
quality: {{max_age_s: 600, max_gap_s: 600}}
ready_deadline_s: 600
"""


@dataclass
class Feed:
    """Two streams with the same rate in event time.

    Attributes:
        folder: Folder of their tables.
        rate: Tuples per second and stream.
        rows: Id, key and second of every tuple, by stream.
    """

    folder: Path
    rate: int = LOW
    rows: dict[str, list[Tuple]] = field(default_factory=lambda: {"r": [], "s": []})

    def commit(self, number: int, tables: dict[str, SourceTable]) -> None:
        """Append the tuples of the next seconds to both."""
        seconds = sorted(number * CHUNK_S + i % CHUNK_S for i in range(self.rate * CHUNK_S))
        for stream, table in tables.items():
            known = self.rows[stream]
            new = [(len(known) + i, f"k{(len(known) + i) % 100}", second) for i, second in enumerate(seconds)]
            append(table, new, 1, number)
            known += new

    @contextmanager
    def running(self) -> Iterator[None]:
        """Commit once per second."""
        tables = {stream: SourceTable(self.folder / stream, SCHEMA, "test") for stream in self.rows}
        self.commit(0, tables)
        with repeating(lambda n: self.commit(n + 1, tables), 1.0):
            yield


def test_join_gets_workers_for_its_load_and_sheds_what_no_worker_can_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, lake = Feed(tmp_path), Lake(tmp_path / "lake")

    def counted(column: str) -> int:
        rows = lake.rows(f"select sum({column}) as n from streams", "telemetry/streams")
        return int(rows[0]["n"] or 0) if rows else 0

    def in_force(name: str) -> Any:
        rows = lake.rows("select * from workers order by time desc, batch_id desc limit 1", "telemetry/workers")
        return rows[0][name] if rows else None

    with embedded_cluster(tmp_path, monkeypatch), ExitStack() as feeding:
        feeding.enter_context(feed.running())
        text = YAML.format(folder=tmp_path, within_s=WITHIN_S, most=MOST, submit=ON_CLUSTER)
        with adapting(tmp_path / "near.yaml", text) as pipeline:
            until(lambda: in_force("workers") == FIRST, "the workers for the expected rate")
            pipeline.until(lambda: in_force("block") != 10)
            larger = in_force("block")
            feed.rate = HIGH
            pipeline.until(lambda: in_force("workers") == MOST and pipeline.app().slots == MOST)
            feed.rate = TOO_HIGH
            pipeline.until(lambda: counted("shed_rows") > 0)
            feed.rate = LOW
            pipeline.until(lambda: in_force("workers") == FIRST and in_force("shed_ratio") == 0)
            pipeline.until(lambda: pipeline.app().slots == FIRST)
            pipeline.await_slots()
            feeding.close()
            fed = sum(map(len, feed.rows.values()))
            until(lambda: counted("rows") == fed, f"{fed} tuples joined")
            shed = counted("shed_rows")

    print(*(decision.sentence for decision in pipeline.decisions), sep="\n")
    fields = {c.field for d in pipeline.decisions for p in d.proposals if p.optimizer == "esj" for c in p.changes}
    assert {JOIN_WORKERS, SHED_RATIO, SLOTS} <= fields and larger > 10
    rows = query("select left_id, right_id from results", results=tmp_path / "results" / "near").to_pylist()
    found = Counter((row["left_id"], row["right_id"]) for row in rows)
    expected = pairs(feed.rows["r"], feed.rows["s"], WITHIN_S)
    assert not found - expected and 0 < shed < fed
    kept = {number for number, _ in found}, {number for _, number in found}
    lost = [pair for pair in expected - found if pair[0] in kept[0] and pair[1] in kept[1]]
    assert not lost, "both tuples were kept"
