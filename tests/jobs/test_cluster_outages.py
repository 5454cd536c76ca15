"""The embedded cluster loses its master, then its worker, while a script runs and a new version is created."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from millrace.environment import spark_env
from millrace.environment.home import Home
from millrace.local.stack import loopback, secrets, spark_cluster
from millrace.local.stack.service import Service
from millrace.model.deployment import ExecutorSize
from millrace.model.master import EMBEDDED
from tests.jobs.driving import Driving, until

pytestmark = pytest.mark.platform


@dataclass
class Services:
    """Master and worker, each restarted on the same port, as the stack's supervisor does."""

    home: Home
    ports: dict[str, int]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        service = next(s for s in self.all if s.name == name)
        env = {**os.environ, **service.env}
        with (self.home.root / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(service.argv, env=env, stdout=log, stderr=log)
        health, started = service.health, time.time()
        assert health is not None
        until(lambda: health(started), f"{name} answers")

    def kill(self, name: str) -> None:
        self.running[name].kill()
        self.running[name].wait()

    @property
    def all(self) -> tuple[Service, ...]:
        return spark_cluster.cluster_services(self.home, secrets.load(self.home), self.ports)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    home = Home(tmp_path / "home")
    home.ensure()
    services = Services(home, {name: loopback.any_free() for name in ("spark", "spark_master", "spark_worker")})
    monkeypatch.setenv("MILLRACE_HOME", str(home.root))
    monkeypatch.setenv(spark_env.MASTER_VARIABLE, spark_cluster.master_url(services.ports))
    spark_cluster.write_config(home, secrets.load(home))
    try:
        services.start("spark-master")
        services.start("spark-worker")
        yield services
    finally:
        for process in services.running.values():
            process.kill()
            process.wait()


def batches(folder: Path) -> list[int]:
    return sorted(int(file.name) for file in folder.iterdir() if file.name.isdigit())


def test_query_survives_master_and_worker_and_follows_decisions_made_in_between(
    cluster: Services, tmp_path: Path
) -> None:
    folder = tmp_path / "counts"
    folder.mkdir()
    driver = Driving(tmp_path, "counts.py", str(folder), executor=ExecutorSize(1, 512), master=EMBEDDED)

    def more_batches() -> None:
        last = max(batches(folder))
        until(lambda: max(batches(folder)) > last + 1, "batches after it")

    try:
        driver.until(lambda record: record.ready_at, "a first batch")
        cluster.kill("spark-master")
        driver.deploy(3)
        more_batches()  # a running query does not need the master
        cluster.start("spark-master")
        driver.until(lambda record: (record.version, record.slots) == (2, 3), "the version made without a master")
        cluster.kill("spark-worker")  # its executors end with it
        driver.deploy(2)
        cluster.start("spark-worker")
        more_batches()
        record = driver.until(lambda record: (record.version, record.slots) == (3, 2), "the version made since")
        assert record.generation == 1
    finally:
        driver.process.kill()
        driver.process.wait()
    numbers = batches(folder)
    assert numbers == list(range(len(numbers)))
    values = range(400 * len(numbers))
    expected = [(key, len(values) // 50, sum(2 * v for v in values if v % 50 == key)) for key in range(50)]
    assert (folder / str(numbers[-1])).read_text() == repr(expected)
