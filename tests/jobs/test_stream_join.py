"""The join's driver under Millrace: killed at the worst moment and reconfigured while it runs, it loses nothing."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from millrace.lake.deployments import DeploymentStore
from millrace.lake.source_tables import SourceTable, query
from millrace.lake.store import Lake
from millrace.model.codec import to_json
from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.join import BROADCAST, MP2PF, JoinDefinition, JoinSettings, JoinStream, JoinTask
from millrace.run_folder.driver_records import DriverState
from tests.jobs.driving import Driving, until
from tests.jobs.join_streams import SCHEMA, append, pairs

pytestmark = pytest.mark.spark

JOB = Path(__file__).resolve().parents[2] / "jobs" / "stream_join.py"
WITHIN_S = 30
TASK = JoinTask("near", "r", "s", (("key", "key"),), -WITHIN_S, WITHIN_S)
COMMITS, ROWS = 8, 60


class Feed:
    """Two source tables, and all rows fed to them."""

    def __init__(self, root: Path) -> None:
        draw = np.random.default_rng(11)
        seconds = {s: np.sort(draw.integers(0, 900, COMMITS * ROWS)) for s in "rs"}
        self.rows = {s: [(i, f"k{i % 4}", int(t)) for i, t in enumerate(seconds[s])] for s in "rs"}
        self.tables = {s: SourceTable(root / "data" / s, SCHEMA, "test") for s in "rs"}
        self.fed = 0

    def commits(self, count: int) -> None:
        """Feed the next commits to both tables."""
        for number in range(self.fed, self.fed + count):
            for stream, table in self.tables.items():
                part = self.rows[stream][number * ROWS : (number + 1) * ROWS]
                append(table, part, 2, number)
        self.fed += count

    def expected(self) -> Counter[tuple[int, int]]:
        fed = {stream: rows[: self.fed * ROWS] for stream, rows in self.rows.items()}
        return pairs(fed["r"], fed["s"], WITHIN_S)


@pytest.fixture
def drivers() -> Iterator[list[Driving]]:
    found: list[Driving] = []
    yield found
    for driver in found:
        driver.process.kill()
        driver.process.wait()


def count(root: Path, table: str, sql: str) -> int:
    """Return a sum over a table of the lake."""
    rows = Lake(root / "lake").rows(f"select {sql} as n from {table.split('/')[1]}", table)
    return int(rows[0]["n"] or 0) if rows else 0


@pytest.mark.slow
@pytest.mark.parametrize("forwarding", [BROADCAST, MP2PF])
def test_killed_driver_restarts_to_exact_matches(drivers, tmp_path: Path, forwarding: str) -> None:
    streams = tuple(JoinStream(s, str(tmp_path / "data" / s), "at", {"id": "id", "key": "key"}) for s in "rs")
    checkpoint, results = tmp_path / "checkpoint", tmp_path / "results"
    definition = JoinDefinition(streams, (TASK,), str(results), str(checkpoint), 1000, forwarding)
    feed, store = Feed(tmp_path), DeploymentStore(Lake(tmp_path / "lake"))
    version = 0

    def deploy(settings: JoinSettings) -> None:
        nonlocal version
        app = AppDeployment(str(JOB), (), 2, 1024, 2)
        version = store.commit(Deployment("p", 1, True, {"a": app}, join=settings), version or None).version

    def drive() -> Driving:
        drivers.append(Driving(tmp_path, str(JOB), f"--join={to_json(definition)}"))
        return drivers[-1]

    def batches(log: str) -> int:
        return sum(f.name.isdigit() for f in (checkpoint / log).glob("*"))

    def reached(rows: int) -> bool:
        return count(tmp_path, "telemetry/streams", "sum(rows)") == rows

    deploy(JoinSettings(1, 10))
    driver = drive()
    feed.commits(2)
    driver.until(lambda r: r.last_commit_at, "a first batch")
    deploy(JoinSettings(2, 25))
    before = batches("commits")
    feed.commits(1)
    until(lambda: batches("commits") > before, "a batch with what is deployed now")
    feed.commits(1)
    until(lambda: reached(2 * feed.fed * ROWS), "a batch with what came last")
    deploy(JoinSettings(1, 25))
    feed.commits(1)
    until(lambda: reached(2 * feed.fed * ROWS), "a batch that plans with one worker")
    before = batches("offsets")
    feed.commits(1)
    until(lambda: batches("offsets") > before, "a batch in which a worker hands over all that it keeps")
    record = driver.record()
    assert record is not None
    os.kill(driver.process.pid, signal.SIGKILL)
    os.kill(record.pid, signal.SIGKILL)
    driver.process.wait()
    _take_back_last_commit(checkpoint)
    driver = drive()
    feed.commits(COMMITS - feed.fed)
    try:
        until(lambda: reached(2 * COMMITS * ROWS), "all rows joined")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{driver.log.read_text()[-3000:]}") from None
    record = driver.record()
    assert record is not None
    os.kill(record.pid, signal.SIGTERM)
    assert driver.process.wait() == 0
    found = query("select left_id, right_id from results", results=results / TASK.name).to_pylist()
    assert Counter((row["left_id"], row["right_id"]) for row in found) == feed.expected()
    assert driver.record().state is DriverState.STOPPED  # type: ignore[union-attr]
    # figures of a batch exist once, though it ran twice
    assert count(tmp_path, "telemetry/workers", "count(*) - count(distinct batch_id * 100 + worker)") == 0
    assert count(tmp_path, "telemetry/workers", "max(workers)") == 2
    assert count(tmp_path, "telemetry/streams", "sum(shed_rows)") == 0


def _take_back_last_commit(checkpoint: Path) -> None:
    """Leave a checkpoint as a kill leaves it between the writing of results and Spark's commit of their batch."""
    begun, committed = (
        {int(f.name) for f in (checkpoint / log).glob("*") if f.name.isdigit()} for log in ("offsets", "commits")
    )
    last = max(begun)
    if last in committed:
        (checkpoint / "commits" / str(last)).unlink()
        (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
