"""A plain script that attaches itself, in any environment with PySpark, and the control plane that follows it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from millrace import wiring
from millrace.control.evaluation import Request
from millrace.control.launch import launch
from millrace.environment import spark_env
from millrace.lake.attached_drivers import Heartbeat, newest_heartbeat
from millrace.lake.control_tables import ControlTables
from millrace.lake.executor_runs import executor_runs
from millrace.lake.partition_runs import partition_runs
from millrace.model.decision import Action
from millrace.model.spec import PipelineSpec
from millrace.pipelines import catalog
from millrace.places import SOURCES
from tests.include.runtime.telemetry.arriving import arriving, files
from tests.jobs.driving import SCRIPTS, until
from tests.jobs.totals import expected_totals, total

NAME = "orders"
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
ROWS_PER_S, EVERY_S = 10.0, 2.0
SPEC = """\
name: orders
submit: {launcher: external}
slots: {min: 1, max: 4, start: 1}
executor: {cores: 1, memory_mb: 512}
memory_mb: 1024
max_parallelism: 4
mode: auto
period_s: 15
guards: {cool_down_s: 0}
ready_deadline_s: 600
"""
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CONF: Mapping[str, str] = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.shuffleTracking.enabled": "false",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    # JVMs that live for a minute
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
}
"""What a user submits the script with."""


@dataclass(frozen=True)
class Environment:
    """An environment with PySpark: its interpreter and Spark's folder."""

    python: Path
    spark: Path

    @property
    def variables(self) -> dict[str, str]:
        """Variables of its processes."""
        python = str(self.python)
        return {
            "SPARK_HOME": str(self.spark),
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
            "PYTHONPATH": str(SOURCES),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONUNBUFFERED": "1",
        }


def here() -> Environment:
    """Return this environment."""
    return Environment(spark_env.python(), spark_env.spark_home())


@dataclass
class Attached:
    """A script that was started by somebody else, and its pipeline in the lake."""

    folder: Path
    spec: PipelineSpec
    tables: ControlTables

    @property
    def lake(self) -> str:
        return self.tables.lake.location.uri

    @contextmanager
    def script(
        self,
        environment: Environment,
        master: str,
        *,
        name: str = "driver",
        script: str = "attached.py",
        lake: str | None = None,
        conf: Mapping[str, str] = CONF,
        checkpoint: str = "checkpoint",
    ) -> Iterator[Path]:
        """Run the script by its environment's spark-submit and yield its log."""
        words = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        argv = [str(environment.spark / "bin" / "spark-submit"), "--master", master, *words]
        argv += [str(SCRIPTS / script), str(self.folder / "in"), str(self.folder / f"{name}.json")]
        argv += [str(self.folder / checkpoint), self.lake if lake is None else lake]
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                argv,
                env={**os.environ, **environment.variables},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield log
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def heartbeat(self) -> Heartbeat | None:
        return newest_heartbeat(self.tables.lake, NAME, NAME, datetime.now(UTC))

    def until(self, log: Path, reached: object, why: str) -> None:
        """Wait for a condition, a function without arguments, and show the driver's log if it never comes true."""
        try:
            until(reached, why)  # type: ignore[arg-type]
        except AssertionError as error:
            raise AssertionError(f"{error}\n{log.read_text()[-5000:]}") from None

    def await_telemetry(self, log: Path) -> None:
        """Wait until the driver has attached and a batch was measured."""
        rows = lambda: self.tables.lake.rows("select count(*) as rows from batches", "telemetry/batches")  # noqa: E731
        self.until(log, lambda: (found := rows()) and found[0]["rows"] > 0, "telemetry")

    def decide(self, slots: int) -> None:
        """Make a Decision that changes the slots, as a person's request to Airflow does, and carry it out."""
        wiring.reconciler_for(self.spec, self.tables).reconcile()
        loop, request = wiring.control_loop(self.spec), Request(forced_slots=slots, requested_by="test")
        decision = loop.decide(loop.observe(request), request)
        assert decision.action is Action.APPLY, decision.sentence
        due = loop.commit(decision, request)
        assert due is not None
        loop.apply(due)

    def deploy(self, slots: int) -> None:
        """Commit a version with other slots."""
        latest = self.tables.deployments.latest(NAME)
        assert latest is not None
        app = replace(latest.apps[NAME], slots=slots)
        self.tables.deployments.commit(replace(latest, apps={NAME: app}), latest.version)

    def follow(
        self, environment: Environment, master: str, resize: Callable[[int], None], conf: Mapping[str, str] = CONF
    ) -> str:
        """Change an attached script's executors from 1 to 3 and back; return the script's log."""
        results = self.folder / "driver.json"
        with (
            arriving(files(self.folder / "in", "json"), ROWS_PER_S, EVERY_S) as arrivals,
            self.script(environment, master, conf=conf) as log,
        ):
            self.await_telemetry(log)
            for slots in (3, 1):
                resize(slots)
                self.until(log, lambda slots=slots: self._slots() == slots, f"{slots} slots")
                if slots == 3:
                    self.until(log, lambda: self._used() == 3, "state on all executors")
            arrivals.rows_per_s = 0.0
            self.until(log, lambda: total(results) == arrivals.rows[-1], "all rows in the results")
            ends = lambda: [run for run in executor_runs(self.tables.lake, NAME, LONG_AGO) if run.ended]  # noqa: E731
            self.until(log, lambda: len(ends()) == 2, "the ends of two executors")
            beat, text = self.heartbeat(), log.read_text()
        assert beat is not None and beat.driver.unable == ""
        assert json.loads(results.read_text()) == expected_totals(arrivals.rows[-1])
        return text

    def _slots(self) -> int:
        beat = self.heartbeat()
        return 0 if beat is None else beat.driver.slots

    def _used(self) -> int:
        """Return how many executors ran state partitions of the newest sampled batch."""
        runs = partition_runs(self.tables.lake, NAME, LONG_AGO)
        newest = max((run.batch_id for run in runs), default=-1)
        return len({run.executor for run in runs if run.batch_id == newest})


@pytest.fixture
def attached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attached:
    """Return a launched pipeline whose driver nobody has started yet."""
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    path = tmp_path / "orders.yaml"
    path.write_text(SPEC)
    spec, tables = catalog.load(path), wiring.control_tables()
    launch(spec, tables)
    return Attached(tmp_path, spec, tables)
