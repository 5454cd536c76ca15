"""The demo at work in a temporary home, and kept up at its end; its executors and memory are watched from outside."""

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
from millrace.local.demo.demo_env import DemoEnv
from millrace.local.stack import supervisor
from millrace.local.stack.home import Home
from millrace.local.stack.stack_record import StackRecord
from millrace.places import REPO

PIPELINE = "delays"
SAMPLE_EVERY_S = 5.0
WORKER = "spark-worker"
NOT_HELD = 1
"""The demo's exit code if it came to its end and one of its checks failed."""


@dataclass(frozen=True)
class DemoRun:
    """A demo that came to its end, with stack and job still up.

    Attributes:
        home: The demo's own home.
        executors: Who came and went, and goes on to.
        memory_gb: Most memory of stack and job together, GiB; a page that several processes share counts once.
        held: Whether it showed all that it has to show; on a machine that is too slow for its load it does not.
    """

    home: Home
    executors: ExecutorWatch
    memory_gb: float
    held: bool


@contextmanager
def demo(root: Path, options: Sequence[str]) -> Iterator[DemoRun]:
    """Run the demo to its end, and stop what it left up at the end of the context.

    Args:
        root: An empty folder.
        options: The demo's options.

    Raises:
        RuntimeError: If the demo did not come to its end.
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
    """Watch the executors of a stack that is yet to come up."""

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
