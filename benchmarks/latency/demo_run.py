"""The demo in a temporary home, kept running after its end, with executors and memory watched from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.elastic.cluster import ExecutorWatch
from millrace.environment.home import Home
from millrace.local.demo.demo_env import DemoEnv
from millrace.local.stack import supervisor
from millrace.local.stack.stack_record import StackRecord
from millrace.places import REPO

PIPELINE = "delays"
SAMPLE_EVERY_S = 5.0
WORKER = "spark-worker"
NOT_HELD = 1
"""The demo's exit code if it ended normally but one of its checks failed."""


@dataclass(frozen=True)
class DemoRun:
    """A demo that has ended, with stack and job still running.

    Attributes:
        home: The demo's own home.
        executors: The watch on executors, which continues.
        memory_gb: Highest memory of stack and job together, GiB; a page shared by several processes counts once.
        held: Whether all of the demo's checks passed; on a machine too slow for its load they do not.
    """

    home: Home
    executors: ExecutorWatch
    memory_gb: float
    held: bool


@contextmanager
def demo(root: Path, options: Sequence[str]) -> Iterator[DemoRun]:
    """Run the demo to its end, and stop what is left when the context ends.

    Args:
        root: An empty folder.
        options: The demo's options.

    Raises:
        RuntimeError: If the demo did not end normally.
    """
    env, most, log = DemoEnv.inside(Home(root)), 0.0, root / "output.log"
    with _worker_watched(env.home) as executors:
        argv = [sys.executable, "-m", "millrace.local.cli", "demo", "--keep", *options]
        with log.open("wb") as out:
            process = subprocess.Popen(
                argv, cwd=REPO, env={**os.environ, "MILLRACE_HOME": str(root)}, stdout=out, stderr=subprocess.STDOUT
            )
        try:
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(SAMPLE_EVERY_S)
                most = max(most, _pss(root) / 2**30)
            if process.returncode not in (0, NOT_HELD):
                tail = log.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise RuntimeError(f"the demo ended with {process.returncode}:\n{tail}")
            yield DemoRun(env.home, executors, most, process.returncode != NOT_HELD)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
            with env.locked():
                env.stop()


@contextmanager
def _worker_watched(home: Home) -> Iterator[ExecutorWatch]:
    """Watch the executors of a stack that has not started yet."""

    def worker() -> int | None:
        record = StackRecord.read(supervisor.record_path(home))
        service = record.services.get(WORKER) if record else None
        return service.process.pid if service and service.process else None

    with ExecutorWatch(worker).watching() as watch:
        yield watch


def _pss(root: Path) -> int:
    total = 0
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(root) in process.environ().get("MILLRACE_HOME", "") or str(root) in " ".join(process.cmdline()):
                facts = process.memory_full_info()
                total += getattr(facts, "pss", facts.uss)
    return total
