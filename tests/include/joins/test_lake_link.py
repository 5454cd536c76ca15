"""A join's figures reach the lake once per batch, and the join reads its deployment; neither can block it."""

from __future__ import annotations

import shutil
from pathlib import Path

from millrace.joins.batch_plan import BatchPlan
from millrace.joins.lake_link import STREAMS, WORKERS, DeployedSettings, JoinTelemetry
from millrace.joins.worker import WorkerReport
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.join import JoinSettings


def reports(*sizes: int) -> list[WorkerReport]:
    arrived = [{"r": 7, "s": 0}, *[{"r": 0, "s": 0}] * (len(sizes) - 2), {"r": 0, "s": 5}][-len(sizes) :]
    if len(sizes) == 1:
        arrived = [{"r": 7, "s": 5}]
    return [
        WorkerReport(i, size, size + 2, 3, 90, 1 - i, 0, arrived[i], {"r": 0 if i else 2, "s": 0}, {}, 6)
        for i, size in enumerate(sizes)
    ]


def told(lake: Lake) -> tuple[list[tuple[int, ...]], list[tuple[str, int, int]]]:
    workers = lake.rows("select * from workers order by batch_id, worker", WORKERS)
    streams = lake.rows("select * from streams order by time, stream", STREAMS)
    return (
        [(w["batch_id"], w["worker"], w["window_tuples"], w["offered"], w["capacity"], w["workers"]) for w in workers],
        [(s["stream"], s["rows"], s["shed_rows"]) for s in streams],
    )


def test_telemetry_when_a_batch_is_reported_twice_then_has_it_once(tmp_path: Path) -> None:
    terms = BatchPlan(4, JoinSettings(2, 50, 0.25))
    for generation in (1, 2):
        JoinTelemetry(Lake(tmp_path), "p", "a", generation, 100)("q", terms, reports(10, 20))
    workers, streams = told(Lake(tmp_path))
    assert workers == [(4, 0, 10, 12, 100, 2), (4, 1, 20, 22, 100, 2)]
    assert streams == [("r", 7, 2), ("s", 5, 0)]
    assert {row["partitions"] for row in Lake(tmp_path).rows("select partitions from workers", WORKERS)} == {6}
    JoinTelemetry(Lake(tmp_path), "p", "a", 3, 100)("another", BatchPlan(0, JoinSettings()), reports(1))
    assert len(told(Lake(tmp_path))[0]) == 3  # batches of a new checkpoint start at 0 again


def test_telemetry_when_the_lake_is_not_writable_then_rows_wait(tmp_path: Path, caplog) -> None:
    telemetry = JoinTelemetry(Lake(tmp_path / "lake"), "p", "a", 1, 100)
    telemetry("q", BatchPlan(0, JoinSettings()), reports(1))
    shutil.rmtree(tmp_path / "lake")
    (tmp_path / "lake").write_text("in the way")
    telemetry("q", BatchPlan(1, JoinSettings()), reports(2))
    assert "the join continues" in caplog.text
    (tmp_path / "lake").unlink()
    telemetry("q", BatchPlan(2, JoinSettings()), reports(3))
    workers, streams = told(Lake(tmp_path / "lake"))
    assert [w[:3] for w in workers] == [(1, 0, 2), (2, 0, 3)] and len(streams) == 4


def test_telemetry_of_a_stale_driver_is_discarded(tmp_path: Path, caplog) -> None:
    new, old = (JoinTelemetry(Lake(tmp_path), "p", "a", generation, 100) for generation in (2, 1))
    new("q", BatchPlan(5, JoinSettings()), reports(1))
    old("q", BatchPlan(6, JoinSettings()), reports(9))
    assert [w[0] for w in told(Lake(tmp_path))[0]] == [5] and "outdated" in caplog.text


def test_settings_follow_the_newest_readable_deployment(tmp_path: Path, caplog) -> None:
    wanted = DeployedSettings(Lake(tmp_path / "lake"), "p", JoinSettings(3))
    assert wanted() == JoinSettings(3)
    store = DeploymentStore(Lake(tmp_path / "lake"))
    app = AppDeployment("s.py", (), 1, 1024, 4)
    store.commit(Deployment("p", 1, True, {"a": app}, join=JoinSettings(4, 10, 0.5)), None)
    assert wanted() == JoinSettings(4, 10, 0.5)
    store.commit(Deployment("p", 1, True, {"a": app}), 1)  # one without a join
    assert wanted() == JoinSettings(4, 10, 0.5)
    shutil.rmtree(tmp_path / "lake")
    (tmp_path / "lake").mkdir()
    table = tmp_path / "lake" / "control" / "deployments" / "_delta_log"
    table.mkdir(parents=True)
    (table / f"{0:020d}.json").write_text("no JSON")
    assert wanted() == JoinSettings(4, 10, 0.5) and "keeps its settings" in caplog.text
