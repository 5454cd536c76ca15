#!/usr/bin/env python3
"""Stands in for spark-submit in tests that do not need Spark: one quick process that behaves like a driver.

Its record, lock, generation check and reaction to TERM are the real ones. The script's arguments set its
behaviour; ``rows`` is the file in which it counts what it "committed", one number per line, continuing after
the last driver.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from millrace.lake.deployments import DeploymentFollower, DeploymentStore
from millrace.lake.store import Lake
from millrace.run_folder.arguments import DriverArguments, recognise
from millrace.run_folder.driver_records import DriverState, QueryCheckpoint, app_dir
from millrace.run_folder.generation import newest
from millrace.run_folder.lock import AppLock
from millrace.run_folder.rescale_record import ENTRY_POINT
from millrace.runtime.journal import Journal
from tests.include.drivers import job_double

TICK_S = 0.01


def main() -> None:
    arguments = recognise(sys.argv)
    assert arguments is not None
    rows, behaviour = Path(arguments.args[0]), arguments.args[1:]
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: None if "deaf" in behaviour else stop.append(number))
    if "stillborn" in behaviour:
        print('Exception in thread "main" java.lang.OutOfMemoryError: no room', flush=True)
        os._exit(1)
    journal = Journal(arguments)
    if "leaves-child" in behaviour and os.fork() == 0:
        time.sleep(3600)
        os._exit(0)
    folder = app_dir(arguments.run_dir, arguments.pipeline, arguments.app)
    import_modules(behaviour, journal)
    lock = AppLock(folder)
    while not lock.try_acquire():
        journal.move(DriverState.WAITING)
        journal.advanced()
        if stop:
            journal.move(DriverState.STOPPED)
            os._exit(0)
        time.sleep(TICK_S)
    if newest(folder) > arguments.generation:
        journal.move(DriverState.STOPPED, "superseded by a later generation")
        os._exit(0)
    journal.move(DriverState.RUNNING)
    keep_state(arguments, behaviour, journal, stop)
    begin_first_batch(behaviour, journal)
    if "batch" in behaviour:
        journal.move(DriverState.COMPLETED)
        os._exit(0)
    done = 0
    followed = DeploymentFollower(Lake(arguments.lake), arguments.pipeline) if "elastic" in behaviour else None
    while not stop:
        fail_after(done, arguments, behaviour, journal)
        commit(rows)
        done += 1
        if followed is not None and (deployed := followed.read()) is not None:
            resize(deployed.version, deployed.apps[arguments.app].slots, behaviour, journal)
        journal.committed(datetime.now(UTC))
        time.sleep(TICK_S)
    journal.move(DriverState.STOPPING)
    journal.move(DriverState.STOPPED)
    os._exit(0)


def resize(version: int, slots: int, behaviour: tuple[str, ...], journal: Journal) -> None:
    """Report a version, with fewer slots or only once a file exists, if that is the behaviour."""
    if "pending" in behaviour and version > 1 and not Path(behaviour[-1]).exists():
        journal.awaits("1 pod is pending: 0/1 nodes are available.")
        return
    journal.awaits("1 of 3 pods exist: exceeded quota." if "full" in behaviour and "quota" in behaviour else "")
    journal.resized(version, min(slots, int(behaviour[-1])) if "full" in behaviour else slots)


def import_modules(behaviour: tuple[str, ...], journal: Journal) -> None:
    """Fail before any query, at once or once a file exists, if that is the behaviour."""
    while "slow-import-error" in behaviour and not Path(behaviour[-1]).exists():
        journal.advanced()
        time.sleep(TICK_S)
    if {"import-error", "slow-import-error"} & set(behaviour):
        journal.move(DriverState.FAILED, "ModuleNotFoundError: No module named 'nowhere'")
        os._exit(1)


def fail_after(done: int, arguments: DriverArguments, behaviour: tuple[str, ...], journal: Journal) -> None:
    """Fail after this many batches, if that is the behaviour: always, or three times with a schema change."""
    if not {"throws", "schema-changes"} & set(behaviour) or done < int(behaviour[-1]):
        return
    if "throws" in behaviour:
        journal.move(DriverState.FAILED, "ValueError: poison")
        os._exit(1)
    if arguments.generation <= 3:
        journal.move(DriverState.FAILED, "[DELTA_SCHEMA_CHANGED_WITH_VERSION] Detected schema change in version 1")
        os._exit(1)


def keep_state(arguments: DriverArguments, behaviour: tuple[str, ...], journal: Journal, stop: list[int]) -> None:
    """Report where state is kept, if any; fail if its number of partitions differs, or as the behaviour says."""
    if "state" not in behaviour:
        return
    deployed = DeploymentStore(Lake(arguments.lake)).get(arguments.pipeline, arguments.version)
    assert deployed is not None
    number, checkpoint = deployed.apps[arguments.app].max_parallelism, Path(arguments.args[0]).with_name("checkpoint")
    if not checkpoint.exists():
        checkpoint.mkdir()
        (checkpoint / "partitions").write_text(str(number))
    found = (checkpoint / "partitions").read_text()
    while "idle" in behaviour and number == 7 and not checkpoint.with_name("rows come").exists():
        journal.idle(datetime.now(UTC))
        time.sleep(TICK_S)
        if stop:
            journal.move(DriverState.STOPPED)
            os._exit(0)
    if found != str(number) or ("poison" in behaviour and number == 7):
        journal.move(DriverState.FAILED, f"ValueError: {number} partitions, and the state has {found}")
        os._exit(1)
    provider = "HDFSBackedStateStoreProvider" if "heap" in behaviour else "RocksDBStateStoreProvider"
    sink = "FileSink[/results]" if "files" in behaviour else "ForeachBatchSink"
    partitions = 0 if "stateless" in behaviour else number
    if "silent" not in behaviour:
        journal.keeps((QueryCheckpoint("q", str(checkpoint), partitions, provider, sink),))


def begin_first_batch(behaviour: tuple[str, ...], journal: Journal) -> None:
    """Hang forever, or work or wait for executors until a file exists, if that is the behaviour."""
    if "short" in behaviour:
        journal.awaits("1 pod is pending: 0/1 nodes are available.")
    while "short" in behaviour and not Path(behaviour[-1]).exists():
        time.sleep(TICK_S)
    while "mute" in behaviour or ("mute-if" in behaviour and Path(behaviour[-1]).exists()):
        time.sleep(TICK_S)
    while "slow" in behaviour and not Path(behaviour[-1]).exists():
        journal.advanced()
        time.sleep(TICK_S)


def commit(rows: Path) -> None:
    last = int(rows.read_text().splitlines()[-1]) if rows.exists() else 0
    with rows.open("a") as file:
        file.write(f"{last + 1}\n")


if __name__ == "__main__":
    job = next((at for at, word in enumerate(sys.argv) if Path(word).name == ENTRY_POINT), None)
    if job is None:
        main()
    else:
        job_double.main(sys.argv[job + 1 :])
