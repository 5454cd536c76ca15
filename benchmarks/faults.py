"""How long a pipeline is without a driver after a fault: real Spark drivers, healed once a second as the runner does.

Airflow's DAG ``reconcile`` comes once a minute, so there up to a minute is added.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.delays_app import Feed, flight_rows
from benchmarks.record import Record, median
from include.drivers.reconciler import Reconciler
from include.lake.control_tables import ControlTables
from include.lake.deployments import DeploymentStore
from include.lake.store import Lake
from include.local.stack.progress import step
from include.local.stack.spark_env import submit_options
from include.model.errors import Conflict, NotReady
from include.model.spec import LOCAL
from include.pipelines.catalog import BUILT_IN, load
from include.run_folder.discovery import find, python_driver
from include.run_folder.driver_records import DriverRecord

BENCH = "faults"
RATE_ROWS_PER_S = 20.0
HEAL_EVERY_S = 1.0
HANG_DEADLINE_S = 15.0
AWAY_S = 20.0
LIMIT_S = 300.0


class Pipeline:
    """The built-in pipeline in a folder of its own, healed from a thread."""

    def __init__(self, root: Path) -> None:
        spec = load(BUILT_IN / "delays.yaml", {"MILLRACE_HOME": str(root)})
        self.root, self.lake = root, Lake(root / "lake")
        local = {"submit": spec.submit.model_copy(update={"master": LOCAL})}
        self.spec = spec.model_copy(update={**local, "hang_deadline_s": HANG_DEADLINE_S, "ready_deadline_s": 60.0})
        self.source, self.run_dir = root / "data" / "flights", root / "run"
        self._store, self._ended = DeploymentStore(self.lake), threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Launch it, heal it while the block runs, and leave no driver behind."""
        made = self._store.commit(self.spec.first_deployment(), None)
        healer = threading.Thread(target=self._heal, name="healer")
        healer.start()
        try:
            self.await_commit(0.0)
            yield
        finally:
            self._ended.set()
            healer.join()
            newest = self._store.latest(self.spec.name) or made
            self._store.commit(replace(newest, running=False), newest.version)
            self._reconciler().reconcile()

    def driver(self) -> DriverRecord:
        """Return the record of the driver that serves."""
        records = self._reconciler().status()
        return next(r for r in records if (p := python_driver(r)) is not None and p.alive())

    def await_commit(self, after: float) -> float:
        """Wait for a batch that a driver committed after a time (Unix seconds), and return when that was."""
        give_up = time.monotonic() + LIMIT_S
        while time.monotonic() < give_up:
            commits = [r.last_commit_at.timestamp() for r in self._reconciler().status() if r.last_commit_at]
            if max(commits, default=0.0) > after:
                return max(commits)
            time.sleep(0.1)
        raise RuntimeError(f"nothing runs {LIMIT_S:g} s after the fault: {self._reconciler().problem()}")

    def _heal(self) -> None:
        reconciler = self._reconciler()
        while not self._ended.wait(HEAL_EVERY_S):
            try:
                reconciler.reconcile(wait_s=0)
            except (NotReady, Conflict):
                continue

    def _reconciler(self) -> Reconciler:
        return Reconciler(
            self.spec, ControlTables(Lake(self.lake.root)), self.run_dir, self.root / "logs", submit_options()
        )


def kill_python(pipeline: Pipeline) -> None:
    """Kill the driver's Python."""
    driver = python_driver(pipeline.driver())
    if driver is not None:
        driver.signal(signal.SIGKILL)


def kill_everything(pipeline: Pipeline) -> None:
    """Kill every process of the driver at once."""
    for driver in find(pipeline.run_dir, pipeline.spec.name):
        for process in driver.processes:
            process.signal(signal.SIGKILL)


def freeze(pipeline: Pipeline) -> None:
    """Stop the driver's Python for good, as a deadlock would."""
    driver = python_driver(pipeline.driver())
    if driver is not None:
        driver.signal(signal.SIGSTOP)


def take_source_away(pipeline: Pipeline) -> None:
    """Take the source away until its driver has failed, and for some time more; the clock starts when it is back."""
    away = pipeline.source.with_name("away")
    pipeline.source.rename(away)
    number, give_up = pipeline.driver().generation, time.monotonic() + LIMIT_S
    while any(d.generation == number for d in find(pipeline.run_dir, pipeline.spec.name)):
        if time.monotonic() > give_up:
            raise RuntimeError("the driver never noticed that its source is away")
        time.sleep(0.1)
    time.sleep(AWAY_S)
    shutil.rmtree(pipeline.source, ignore_errors=True)
    away.rename(pipeline.source)


def lose_run_folder(pipeline: Pipeline) -> None:
    """Lose the run folder and the driver with it."""
    shutil.rmtree(pipeline.run_dir)
    kill_everything(pipeline)


FAULTS: dict[str, Callable[[Pipeline], None]] = {
    "Python of the driver killed": kill_python,
    "driver killed": kill_everything,
    f"driver frozen (hang_deadline_s {HANG_DEADLINE_S:g})": freeze,
    "run folder lost, driver killed": lose_run_folder,
    f"source away until the driver failed, and {AWAY_S:g} s more": take_source_away,
}


def run(quick: bool) -> list[Record]:
    """Do each fault to the running pipeline.

    Args:
        quick: Once each instead of three times.
    """
    found: dict[str, list[float]] = {name: [] for name in FAULTS}
    with tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder:
        pipeline = Pipeline(Path(folder).resolve())
        feed = Feed(pipeline.source, flight_rows(1))
        feed.commit(int(RATE_ROWS_PER_S))
        with pipeline.running():
            for name, fault in FAULTS.items():
                for _ in range(1 if quick else 3):
                    with step(name):
                        found[name].append(_recovery_s(pipeline, feed, fault))
    return [median(BENCH, name, "millrace", "fault to next commit", values, "s") for name, values in found.items()]


def _recovery_s(pipeline: Pipeline, feed: Feed, fault: Callable[[Pipeline], None]) -> float:
    with feed.at(lambda _: RATE_ROWS_PER_S):
        pipeline.await_commit(time.time())
    fault(pipeline)  # without the feed, as the source itself may be gone
    done = time.time()
    with feed.at(lambda _: RATE_ROWS_PER_S):
        return round(pipeline.await_commit(done) - done, 1)
