"""The faults: each breaks one part of a running pipeline, and repairs only what nothing else heals."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Mapping
from signal import SIGCONT, SIGKILL, SIGSTOP

from benchmarks.elastic.pipeline import Pipeline, wait_until
from benchmarks.elastic.runs import source_of
from millrace.run_folder.discovery import find, python_driver
from millrace.run_folder.process import ProcessId

FROZEN_S = (30.0, 90.0)
"""Some freezes outlast ``hang_deadline_s``, some do not."""
AWAY_S = 20.0
SET_S = 3600.0

Fault = Callable[[Pipeline, random.Random], None]


def kill_python(pipeline: Pipeline, _chance: random.Random) -> None:
    """Kill the driver's Python."""
    _python(pipeline).signal(SIGKILL)


def kill_jvm(pipeline: Pipeline, _chance: random.Random) -> None:
    """Kill the driver's JVM."""
    python = _python(pipeline)
    for process in _processes(pipeline):
        if process != python:
            process.signal(SIGKILL)


def kill_driver(pipeline: Pipeline, _chance: random.Random) -> None:
    """Kill every process of the driver at once."""
    for process in _processes(pipeline):
        process.signal(SIGKILL)


def freeze_driver(pipeline: Pipeline, chance: random.Random) -> None:
    """Stop the driver's Python for a while, like a machine that swaps."""
    _freeze(_python(pipeline), chance)


def kill_executor(pipeline: Pipeline, chance: random.Random) -> None:
    """Kill an executor."""
    alive = pipeline.cluster.executors.alive()
    if alive:
        chance.choice(alive).process.signal(SIGKILL)


def freeze_executor(pipeline: Pipeline, chance: random.Random) -> None:
    """Stop an executor for a while."""
    alive = pipeline.cluster.executors.alive()
    if alive:
        _freeze(chance.choice(alive).process, chance)


def kill_worker(pipeline: Pipeline, _chance: random.Random) -> None:
    """Kill the cluster's worker, whose executors end with it, and restart it like the stack."""
    pipeline.cluster.restart("spark-worker")


def kill_master(pipeline: Pipeline, _chance: random.Random) -> None:
    """Kill the cluster's master, and restart it like the stack."""
    pipeline.cluster.restart("spark-master")


def set_clock(pipeline: Pipeline, chance: random.Random) -> None:
    """Set the clock that healing uses, forward or back, and kill the driver's Python."""
    pipeline.clock.ahead_s += chance.choice((-SET_S, SET_S))
    _python(pipeline).signal(SIGKILL)


def lose_run_folder(pipeline: Pipeline, chance: random.Random) -> None:
    """Delete the run folder and kill the driver."""
    processes = _processes(pipeline)
    shutil.rmtree(pipeline.home.run / "drivers", ignore_errors=True)
    for process in processes:
        process.signal(SIGKILL)


def take_source_away(pipeline: Pipeline, _chance: random.Random) -> None:
    """Move the source away until its driver has failed, and keep it away for a while."""
    source = source_of(pipeline.home)
    away, processes = source.with_name("away"), _processes(pipeline)
    source.rename(away)
    wait_until(lambda: not any(process.alive() for process in processes), "a driver that fails without its source")
    time.sleep(AWAY_S)
    shutil.rmtree(source, ignore_errors=True)
    away.rename(source)


FAULTS: Mapping[str, Fault] = {
    "driver_python_killed": kill_python,
    "driver_jvm_killed": kill_jvm,
    "driver_killed": kill_driver,
    "driver_frozen": freeze_driver,
    "executor_killed": kill_executor,
    "executor_frozen": freeze_executor,
    "worker_killed": kill_worker,
    "master_killed": kill_master,
    "clock_set": set_clock,
    "run_folder_lost": lose_run_folder,
    "source_away": take_source_away,
}
WITHOUT_FEED = {"source_away"}
"""Faults during which nothing can be committed to the source."""


def _freeze(process: ProcessId, chance: random.Random) -> None:
    process.signal(SIGSTOP)
    time.sleep(chance.uniform(*FROZEN_S))  # the fault itself: no event marks its end
    process.signal(SIGCONT)


def _python(pipeline: Pipeline) -> ProcessId:
    found: list[ProcessId] = []

    def serves() -> bool:
        record = pipeline.record()
        process = None if record is None else python_driver(record)
        found[:] = [process] if process is not None and process.alive() else []
        return bool(found)

    wait_until(serves, "a driver")
    return found[0]


def _processes(pipeline: Pipeline) -> list[ProcessId]:
    return [process for d in find(pipeline.home.run / "drivers", pipeline.spec.name) for process in d.processes]
