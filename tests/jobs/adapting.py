"""A pipeline on a separate embedded cluster, evaluated as Airflow does it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from millrace import wiring
from millrace.control.launch import launch
from millrace.control.loop import ControlLoop
from millrace.environment import spark_env
from millrace.environment.home import Home
from millrace.local.stack import loopback, secrets, service_processes
from millrace.local.stack.spark_cluster import cluster_services, master_url, write_config
from millrace.model.decision import Decision, Outcome, Reconfiguration
from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.errors import NotReady
from millrace.model.spec import PipelineSpec
from millrace.pipelines import catalog
from millrace.run_folder.driver_records import ENDED
from millrace.run_folder.process import ProcessId
from tests.include.runtime.telemetry.arriving import Arrivals
from tests.jobs.driving import LIMIT_S, until

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that runs for minutes."""
ON_CLUSTER = json.dumps(
    {
        "master": "embedded",
        "conf": dict.fromkeys(("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"), QUICK),
    }
)
"""The spec's ``submit`` for the embedded cluster."""


@contextmanager
def embedded_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """Run a cluster in a home."""
    home, ports = Home(folder), {name: loopback.any_free() for name in ("spark", "spark_master", "spark_worker")}
    shared = secrets.load(home)
    write_config(home, shared)
    monkeypatch.setenv("MILLRACE_HOME", str(folder))
    monkeypatch.setenv(spark_env.MASTER_VARIABLE, master_url(ports))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    leaders = []
    try:
        for service in cluster_services(home, shared, ports):
            started = time.time()
            process = service_processes.start(service, home.root, home.logs / f"{service.name}.log")
            leaders.append(ProcessId.of(process.pid))
            health = service.health
            assert health is not None
            until(lambda health=health, started=started: health(started), service.name)
        yield home
    finally:
        service_processes.stop(leaders, home.root)


REST_S = 3.0
"""Rest after an evaluation, if the spec's period is not shorter: evaluations must not take the job's processors."""


@dataclass
class Adapting:
    """A launched pipeline: evaluations and changes, made as Airflow makes them on commits of telemetry."""

    path: Path
    spec: PipelineSpec
    loop: ControlLoop
    decisions: list[Decision] = field(default_factory=list)
    changes: list[Reconfiguration] = field(default_factory=list)

    def evaluate(self) -> None:
        """Evaluate if something new was committed; otherwise wait a moment."""
        try:
            self.decisions.append(self.loop.decide(self.loop.observe()))
        except NotReady:
            time.sleep(REST_S / 2)
        else:
            due = self.loop.commit(self.decisions[-1])
            self.changes += self.loop.apply(due) if due else ()
            time.sleep(min(self.spec.period_s, REST_S))

    def until(self, reached: Callable[[], bool]) -> None:
        """Evaluate until the app is as wanted."""
        deadline = time.monotonic() + LIMIT_S
        while not reached():
            assert time.monotonic() < deadline, "\n".join(d.sentence for d in self.decisions)
            self.evaluate()

    def edit(self, text: str) -> None:
        """Edit the spec of the running pipeline; decisions and changes are counted from here."""
        self.path.write_text(text)
        self.spec = catalog.load(self.path)
        self.loop, self.decisions, self.changes = wiring.control_loop(self.spec), [], []

    def force(self, ingest: Mapping[str, int] | None = None, **parts: object) -> None:
        """Deploy something else as a person, and wait until it runs; evaluations start from there.

        Args:
            ingest: Node of each stream of a fleet; None to leave them.
            parts: Content of its app, by name.
        """
        tables, latest = self.loop.tables, self.deployment()
        apps = {**latest.apps, self.spec.app: replace(self.app(), **parts)} if parts else latest.apps
        wanted = replace(latest, apps=apps, ingest=latest.ingest if ingest is None else ingest)
        if wanted != latest:
            tables.deployments.commit(replace(wanted, author="person", decision_id=None), latest.version)
            wiring.own_reconciler(self.spec, tables).reconcile()
            self.await_slots()

    def await_slots(self) -> None:
        """Wait until the first driver of each app has its slots: on a busy machine, executors take long to start."""
        reconciler = wiring.own_reconciler(self.spec, self.loop.tables)
        wanted = {name: app.slots for name, app in self.deployment().apps.items()}
        until(
            lambda: {d.app: d.slots for d in reconciler.status() if d.state not in ENDED} == wanted, f"{wanted} slots"
        )
        assert {d.generation for d in reconciler.status()} == {1}, "nothing was restarted"

    def knows_its_ability(self) -> bool:
        return bool(self.decisions) and tells_ability(self.decisions[-1])

    def achieved(self, decision: Decision) -> Mapping[str, float]:
        """Return the effect of a change found by later evaluations; empty until they know it."""
        recent = self.loop.tables.reconfigurations.recent(self.spec.name)
        return next((c.achieved for c in recent if c.decision_id == decision.decision_id), {})

    def assert_live(self) -> None:
        """Fail unless executors came and went under the first driver; a later version may have replaced a change."""
        lasting = [c for c in self.changes if c.error is None or not c.error.startswith("superseded by version")]
        assert lasting and all(c.tier == "T1" and c.generation == 1 for c in self.changes), self.changes
        assert [c.error for c in lasting if c.outcome is not Outcome.READY] == []

    def deployment(self) -> Deployment:
        """Return the newest version."""
        latest = self.loop.tables.deployments.latest(self.spec.name)
        assert latest is not None
        return latest

    def app(self) -> AppDeployment:
        """Return the app's newest content."""
        return self.deployment().apps[self.spec.app]


IDLE = 4.0
"""Rows per second for the first batches of a shared job, and for working off a backlog."""


@dataclass
class SharedJob:
    """A running job that several tests evaluate in turn.

    Attributes:
        pipeline: It is evaluated under the spec of each test.
        arrivals: Its load.
        folder: Of its input and results.
        total: Returns the rows that its results contain.
    """

    pipeline: Adapting
    arrivals: Arrivals
    folder: Path
    total: Callable[[], int]

    def given(self, text: str, rows_per_s: float, **parts: object) -> Adapting:
        """Return the pipeline with another spec, content and load, once most of its backlog is gone.

        Args:
            text: The spec.
            rows_per_s: The load.
            parts: Content of the app, by name.
        """
        self.arrivals.rows_per_s = IDLE
        until(lambda: self.arrivals.rows[-1] - self.total() < 30 * IDLE, "a small backlog")
        self.pipeline.edit(text)
        self.pipeline.force(**parts)
        self.arrivals.rows_per_s = rows_per_s
        return self.pipeline


@contextmanager
def adapting(path: Path, text: str) -> Iterator[Adapting]:
    """Attach a pipeline by its YAML, and launch it; stop it afterwards."""
    path.write_text(text)
    spec = catalog.load(path)
    tables = wiring.control_tables()
    launch(spec, tables, join_workers=wiring.first_join_workers(spec))
    try:
        latest = tables.deployments.latest(spec.name)
        assert latest is not None
        needed = sorted(app for app in spec.app_specs if latest.wanted(app))
        starts: dict[str, Reconfiguration] = {}

        def started() -> bool:
            starts.update({start.app: start for start in wiring.own_reconciler(spec, tables).reconcile()})
            return all(start.outcome is not Outcome.OPEN for start in starts.values())

        until(started, "the first start")  # on a busy machine, one pass may leave it in progress
        assert {app: starts[app].outcome for app in sorted(starts)} == dict.fromkeys(needed, Outcome.READY), starts
        yield Adapting(path, spec, wiring.control_loop(spec))
    finally:
        launch(spec, tables, running=False)
        wiring.own_reconciler(spec, tables).reconcile()


def tells_ability(decision: Decision) -> bool:
    """Say if an evaluation measured the throughput of the slots on settled figures."""
    signals = decision.signals
    return signals is not None and not signals.settling and signals.apps[0].capacity is not None
