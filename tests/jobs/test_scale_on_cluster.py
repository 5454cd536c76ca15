"""A plain script on JSON files, attached with one YAML, follows its load on executors of the embedded cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from include import wiring
from include.control.launch import launch
from include.control.loop import ControlLoop
from include.local.stack import loopback, secrets, service_processes, spark_env
from include.local.stack.home import Home
from include.local.stack.spark_cluster import cluster_services, master_url, write_config
from include.model.decision import Action, Decision, Outcome, Reconfiguration
from include.model.errors import NotReady
from include.model.spec import PipelineSpec
from include.pipelines import catalog
from include.run_folder.process import ProcessId
from tests.include.runtime.telemetry.arriving import arriving, files
from tests.jobs.driving import SCRIPTS, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WAIT_S = 0.02
"""What the script waits a row: a slot can process 50 rows/s."""
LOW, HIGH = 30.0, 220.0
PATIENCE_S = 240.0

YAML = """\
name: totals
script: {script}
args: [{folder}/in, {folder}/totals.json, {folder}/checkpoint, "{wait_s}"]
submit: {{master: embedded}}
slots: {{min: 2, max: 8, start: 2}}
executor: {{cores: 2, memory_mb: 512}}
objective: {{target_utilisation: 0.75, max_lag_s: 20}}
mode: auto
period_s: 10
guards: {{cool_down_s: 0}}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home whose embedded cluster runs."""
    home, ports = Home(tmp_path), {name: loopback.any_free() for name in ("spark", "spark_master", "spark_worker")}
    shared = secrets.load(home)
    write_config(home, shared)
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
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


@pytest.fixture
def spec(home: Home) -> Iterator[PipelineSpec]:
    """The attached pipeline; stopped in the end."""
    path = home.root / "totals.yaml"
    path.write_text(YAML.format(script=SCRIPTS / "totals.py", folder=home.root, wait_s=WAIT_S))
    spec = catalog.load(path)
    yield spec
    tables = wiring.control_tables()
    launch(spec, tables, running=False)
    wiring.own_reconciler(spec, tables).reconcile()


@dataclass
class Adapting:
    """Evaluations and changes, as Airflow makes them with the commits of telemetry."""

    loop: ControlLoop
    decisions: list[Decision] = field(default_factory=list)
    changes: list[Reconfiguration] = field(default_factory=list)

    def until(self, reached: Callable[[], bool]) -> None:
        """Evaluate until the app is as wanted."""
        deadline = time.monotonic() + PATIENCE_S
        while not reached():
            assert time.monotonic() < deadline, "\n".join(d.sentence for d in self.decisions)
            try:
                self.decisions.append(self.loop.decide(self.loop.observe()))
            except NotReady:
                time.sleep(1.0)
                continue
            self.changes += self.loop.apply(self.decisions[-1].decision_id)

    def knows_its_ability(self) -> bool:
        signals = self.decisions[-1].signals if self.decisions else None
        return signals is not None and not signals.settling and signals.apps[0].capacity is not None

    def slots(self) -> int:
        latest = self.loop.tables.deployments.latest("totals")
        assert latest is not None
        return latest.apps["totals"].slots


def total(results: Path) -> int:
    return sum(rows for rows, _ in json.loads(results.read_text()).values()) if results.exists() else 0


def test_script_on_json_files_grows_and_shrinks_with_its_load(home: Home, spec: PipelineSpec) -> None:
    tables, results = wiring.control_tables(), home.root / "totals.json"
    with arriving(files(home.root / "in", "json"), LOW) as arrivals:
        launch(spec, tables)
        (start,) = wiring.own_reconciler(spec, tables).reconcile()
        assert start.outcome is Outcome.READY
        adapting = Adapting(wiring.control_loop(spec))
        adapting.until(adapting.knows_its_ability)
        arrivals.rows_per_s = HIGH
        adapting.until(lambda: adapting.slots() > 2)
        arrivals.rows_per_s = LOW
        adapting.until(lambda: adapting.slots() == 2)
    rows = arrivals.rows[-1]
    until(lambda: total(results) == rows, f"{rows} rows in the results")
    expected = {str(key): [len(range(key, rows, 7)), sum(range(key, rows, 7))] for key in range(7)}
    assert json.loads(results.read_text()) == expected

    assert {(c.tier, c.outcome, c.generation) for c in adapting.changes} == {("T1", Outcome.READY, 1)}
    steps = [d.sentence for d in adapting.decisions if d.action is Action.APPLY]
    assert all("rows/s arrive (each batch takes all there is)" in sentence for sentence in steps), steps
