"""The cost of executors: the lifetimes of their processes, seen from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from signal import SIGKILL

import pytest

from benchmarks.elastic.cluster import EXECUTOR, ExecutorWatch

IDLE = "import time; time.sleep(600)"


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", IDLE, *words]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def _until(condition: Callable[[], object]) -> None:
    while not condition():
        time.sleep(0.02)


def test_executor_lives_from_its_start_until_it_is_killed(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    before = time.time()
    with ExecutorWatch(os.getpid).watching() as watch:
        start("a worker's other child")
        executor = start(f"org.apache.spark.executor.{EXECUTOR}", "--cores", "2")
        _until(watch.alive)
        (life,) = watch.lives()
        assert (life.process.pid, life.cores, life.end) == (executor.pid, 2, None)
        assert before - 0.05 < life.begin < time.time()
        assert life.process.signal(SIGKILL)
        _until(lambda: not watch.alive())
    (life,) = watch.lives()
    assert life.end is not None
    assert life.begin < life.end < time.time()


def test_watch_waits_for_a_worker_that_has_not_started(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    workers: list[int] = []
    with ExecutorWatch(lambda: workers[0] if workers else None).watching() as watch:
        start(EXECUTOR, "--cores", "4")
        assert watch.lives() == []
        workers.append(os.getpid())
        _until(watch.alive)
        assert [life.cores for life in watch.lives()] == [4]
