"""A user's script on a Spark standalone cluster of one master and one worker, started here."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from deltalake import DeltaTable

from millrace.lake.executor_runs import executor_runs
from millrace.lake.partition_runs import partition_runs
from millrace.lake.store import Lake
from millrace.model.deployment import ExecutorSize
from millrace.run_folder.driver_records import DriverState
from millrace.runtime.agent.executor_warm_up import JOB
from tests.jobs.driving import Driving, until
from tests.jobs.standalone import standalone

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    with standalone(tmp_path) as address:
        yield address


def test_script_on_a_cluster_runs_on_its_slots(master: str, tmp_path: Path) -> None:
    driver = Driving(tmp_path, "endings.py", "unawaited", str(tmp_path), master=master)
    try:
        assert driver.process.wait() == 0, driver.log.read_text()[-3000:]
    finally:
        driver.process.kill()
    assert driver.record().state is DriverState.COMPLETED and driver.record().last_commit_at is not None
    executors = list((tmp_path / "work").glob("app-*/*"))
    assert executors, "nothing ran on the worker"
    assert re.search(
        r"with 2 core\(s\)|--cores 2|\"--cores\" \"2\"", (tmp_path / "worker.Worker.log").read_text()
    ) or any('--cores" "2"' in (e / "stderr").read_text() for e in executors)


def _batches(folder: Path) -> list[int]:
    return sorted(int(file.name) for file in folder.iterdir() if file.name.isdigit())


def _executors() -> list[psutil.Process]:
    """Return the executors' JVMs."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any("CoarseGrainedExecutorBackend" in word for word in process.cmdline()) and "java" in process.name():
                found.append(process)
    return found


def _preparations(events: Path) -> int:
    """Return the number of jobs for new executors that started."""
    (log,) = events.iterdir()
    found = [json.loads(line) for line in log.read_text().splitlines()]
    starts = [event for event in found if event["Event"] == "SparkListenerJobStart"]
    return len([start for start in starts if start["Properties"].get("spark.job.description") == JOB])


def test_executors_are_added_removed_and_killed_and_no_row_is_lost(master: str, tmp_path: Path) -> None:
    folder = tmp_path / "counts"
    folder.mkdir()
    # executors on one host read each other's files, unless set to behave like separate hosts
    events = tmp_path / "events"
    events.mkdir()
    conf = {
        "spark.shuffle.readHostLocalDisk": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    driver = Driving(tmp_path, "counts.py", str(folder), executor=ExecutorSize(1, 512), master=master, conf=conf)
    before = {process.pid for process in _executors()}

    def own() -> list[psutil.Process]:
        return [p for p in _executors() if p.pid not in before and str(tmp_path) in p.cwd()]

    def resized(slots: int) -> None:
        driver.deploy(slots)
        driver.until(lambda record: record.slots == slots and record.version > 1, f"{slots} slots")
        last = max(_batches(folder))
        until(lambda: max(_batches(folder)) > last + 2, "batches on them")

    try:
        driver.until(lambda record: record.ready_at, "a first batch")
        pid = driver.record().pid
        assert len(own()) == 2
        resized(3)
        assert len(own()) == 3
        victim = own()[0]
        victim.kill()
        until(lambda: len(own()) == 3 and victim.pid not in {p.pid for p in own()}, "another executor in its place")
        last = max(_batches(folder))
        until(lambda: max(_batches(folder)) > last + 2, "batches after it")
        resized(1)
        until(lambda: len(own()) == 1, "executors that were let go")
        record = driver.record()
        assert (record.pid, record.generation, record.version) == (pid, 1, 3)  # one driver all the time
        os.kill(pid, signal.SIGTERM)
        assert driver.process.wait() == 0, driver.log.read_text()[-3000:]
    finally:
        driver.process.kill()
    assert _preparations(events) >= 2  # for those that came while the query ran
    numbers = _batches(folder)
    assert numbers == list(range(len(numbers)))
    for number in (numbers[0], numbers[len(numbers) // 2], numbers[-1]):
        values = range(400 * (number + 1))
        expected = [(key, len(values) // 50, sum(2 * v for v in values if v % 50 == key)) for key in range(50)]
        assert (folder / str(number)).read_text() == repr(expected)
    rows = DeltaTable(str(tmp_path / "lake" / "telemetry" / "batches")).to_pyarrow_dataset().to_table().to_pylist()
    assert {row["slots"] for row in rows} >= {2, 3, 1}
    runs = executor_runs(Lake(tmp_path / "lake"), driver.record().pipeline, datetime(2020, 1, 1, tzinfo=UTC))
    assert len(runs) == 4 and {(run.cores, run.memory_mb) for run in runs} == {(1, 512)}
    assert [run.died_of_memory for run in runs].count(True) == 1, [run.reason for run in runs]
    assert len([run for run in runs if run.ended is None]) == 1
    assert any(run.peak_memory_mb and run.peak_memory_mb > 100 for run in runs), runs
    partitions = partition_runs(Lake(tmp_path / "lake"), driver.record().pipeline, datetime(2020, 1, 1, tzinfo=UTC))
    assert Counter(run.batch_id for run in partitions) == dict.fromkeys({run.batch_id for run in partitions}, 8)
    assert len({run.executor for run in partitions}) > 1
    assert {run.executor for run in partitions} <= {run.executor for run in runs}
    assert any(run.local_bytes for run in partitions) and any(run.remote_bytes for run in partitions)
    assert {run.version for run in partitions} <= {1, 2, 3} and any(run.state_bytes for run in partitions)
