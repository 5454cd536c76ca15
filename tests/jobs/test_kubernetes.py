"""Drivers on Kubernetes, Millrace's and others': executors as pods that come, are slow, are lost and are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from millrace.lake.executor_runs import executor_runs
from millrace.lake.store import Lake
from millrace.model.decision import LIVE, RESTART
from millrace.model.deployment import ExecutorSize
from millrace.model.telemetry import ExecutorRun
from tests.include.runtime.telemetry.arriving import Arrivals, arriving, files
from tests.jobs.attaching import CONF, NAME, Attached, here
from tests.jobs.attaching import attached as attached
from tests.jobs.driving import Driving, until
from tests.jobs.totals import expected_totals, follow_load, total
from tests.kubernetes.cluster import Cluster, kubernetes_cluster

pytestmark = pytest.mark.platform

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
ROWS_PER_S, EVERY_S = 10.0, 2.0
SLOW_S = 60.0
"""How long a new node takes; more than Millrace waits for executors that its cluster does not say to be pending."""


@dataclass
class Life:
    """A driver on a cluster, and rows that arrive."""

    folder: Path
    cluster: Cluster
    driver: Driving
    arrivals: Arrivals

    @property
    def results(self) -> Path:
        return self.folder / "totals.json"

    def until(self, reached: object, why: str) -> None:
        try:
            until(reached, why)  # type: ignore[arg-type]
        except AssertionError as error:
            log = self.driver.log.read_text()[-5000:]
            raise AssertionError(f"{error}\n{self.driver.record()}\n{log}\n{self.cluster.logs()}") from None

    def has_slots(self, slots: int) -> None:
        record = lambda: self.driver.record()  # noqa: E731
        self.until(lambda: (found := record()) and found.version > 1 and found.slots == slots, f"{slots} slots")

    def awaits(self, *words: str) -> None:
        """Wait until the driver says why executors are missing."""
        record = lambda: self.driver.record()  # noqa: E731
        said = lambda: (found := record()) and all(word in found.awaits for word in words)  # noqa: E731
        self.until(said, f"{words} in what the driver says")

    def goes_on(self) -> None:
        """Wait until rows that arrive from now on are in the results."""
        rows = self.arrivals.rows[-1]
        self.until(lambda: total(self.results) > rows, "more rows in the results")

    def runs(self) -> tuple[ExecutorRun, ...]:
        return executor_runs(Lake(self.folder / "lake"), "p", LONG_AGO)

    def run_of(self, pod: str) -> ExecutorRun | None:
        """Return what the lake has of a pod's executor once it has ended."""
        return next((run for run in self.runs() if run.executor == pod.rpartition("-")[2] and run.ended), None)


@contextmanager
def life(folder: Path) -> Iterator[Life]:
    """Run a driver with one executor until the block ends; all rows that arrived must then be in the results."""
    with (
        kubernetes_cluster(folder / "pods") as cluster,
        arriving(files(folder / "in", "json"), ROWS_PER_S, EVERY_S) as arrivals,
    ):
        paths = [str(folder / name) for name in ("in", "totals.json", "checkpoint", "lake")]
        how = {"master": cluster.master, "conf": cluster.conf}
        driver = Driving(folder, "attached.py", *paths, executor=ExecutorSize(1, 512), **how)
        found = Life(folder, cluster, driver, arrivals)
        try:
            found.until(lambda: (record := driver.record()) and record.ready_at, "a first batch")
            yield found
            arrivals.rows_per_s = 0.0
            found.until(lambda: total(found.results) == arrivals.rows[-1], "all rows in the results")
            record = driver.record()
            assert record is not None and record.generation == 1 and record.error is None
        finally:
            driver.process.kill()
            driver.process.wait()
    assert json.loads(found.results.read_text()) == expected_totals(arrivals.rows[-1])


def test_pods_of_a_slow_node_deleted_and_killed_cost_no_row(tmp_path: Path) -> None:
    with life(tmp_path) as found:
        cluster, driver = found.cluster, found.driver
        cluster.kubelet.node.pending_s = SLOW_S
        driver.deploy(4)
        found.awaits("2 pods are pending", "0/1 nodes are available", "add some, or lower slots.max")
        record = driver.record()
        assert record is not None and (record.version, record.slots) == (1, 2), "pending is not refused"
        found.has_slots(4)
        cluster.kubelet.node.pending_s = 0.0

        deleted, killed = sorted(cluster.kubelet.processes())[:2]
        cluster.delete(deleted)
        found.until(lambda: found.run_of(deleted), "the end of the deleted pod's executor")
        found.until(lambda: len(cluster.kubelet.processes()) == 4, "a pod in its place")
        cluster.api.close_watches()
        cluster.kubelet.kill(killed)
        found.until(lambda: found.run_of(killed), "the end of the killed pod's executor")
        found.until(lambda: len(cluster.kubelet.processes()) == 4, "a pod in its place")
        found.goes_on()

        driver.deploy(1)
        found.has_slots(1)
        found.until(lambda: len(cluster.pods()) == 1, "pods that are gone")
        found.goes_on()
    ends = {run.executor: run for run in found.runs() if run.ended}
    of_delete, of_kill = found.run_of(deleted), found.run_of(killed)
    assert of_delete is not None and not of_delete.died and not of_delete.died_of_memory, of_delete
    assert of_kill is not None and of_kill.died_of_memory, of_kill
    assert [run.died for run in ends.values()].count(True) == 1, ends
    slow = [run.lead_s for run in found.runs() if run.lead_s is not None]
    assert len([lead_s for lead_s in slow if lead_s >= SLOW_S]) == 2, slow


def test_refusals_and_an_outage_of_the_api_are_named_and_the_job_goes_on(tmp_path: Path) -> None:
    with life(tmp_path) as found:
        cluster, driver = found.cluster, found.driver
        cluster.api.faults.pods = 2
        driver.deploy(4)
        found.awaits("2 of 4 pods exist", "exceeded quota", "Raise the ResourceQuota of the namespace")
        driver.until(lambda record: (record.version, record.slots) == (2, 2), "a cluster that has no more")
        cluster.api.faults.pods, cluster.api.faults.forbidden = None, {"create"}
        driver.deploy(3)
        found.awaits('cannot create resource "pods"', "Role in docs/kubernetes.md")
        cluster.api.faults.forbidden = {"list"}
        driver.deploy(4)
        found.awaits('cannot list resource "pods"', "Role in docs/kubernetes.md")
        found.goes_on()
        cluster.api.stop()
        cluster.api.faults.forbidden = set()
        driver.deploy(5)
        found.awaits("API server does not answer", "asks again once it is back")
        found.goes_on()
        cluster.api.start()
        found.has_slots(5)
        found.goes_on()


def test_attached_driver_gets_and_loses_pods_by_decisions(attached: Attached) -> None:
    with kubernetes_cluster(attached.folder / "pods") as cluster:
        log = attached.follow(here(), cluster.master, attached.decide, {**CONF, **cluster.conf})
    changes = attached.tables.reconfigurations.recent(NAME)
    assert {(c.tier, c.generation, c.error) for c in changes} == {(RESTART, 1, None), (LIVE, 1, None)}, changes
    assert "orders: attached as generation 1" in log


def test_pipeline_grows_and_shrinks_with_its_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    with kubernetes_cluster(tmp_path / "pods") as cluster:
        pipeline = follow_load(tmp_path, {"master": cluster.master, "conf": cluster.conf})
    pipeline.assert_live()
