"""The faults of the whole stack: each ends by itself, and only the stack repairs what it leaves broken."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from signal import SIGKILL, SIGSTOP

import psutil

from benchmarks.elastic.pipeline import wait_until
from benchmarks.faults.stack import Stack
from millrace.local.stack import lifecycle

LASTS_S = (15.0, 40.0)
"""How long disk, database and files stay broken, seconds."""
FROZEN_S = (30.0, 90.0)
KILLED = ("scheduler", "api-server", "execution-api", "dag-processor", "triggerer", "mlflow")
BLOCK = 1 << 20

Fault = Callable[[Stack, random.Random], None]


def kill_service(name: str, stack: Stack, _chance: random.Random) -> None:
    """Kill a service; its supervisor starts it again."""
    stack.service(name).signal(SIGKILL)


def kill_task(stack: Stack, _chance: random.Random) -> None:
    """Kill a task of the pipeline while it runs."""
    victims: list[psutil.Process] = []

    def runs() -> bool:
        with suppress(psutil.Error):
            workers = psutil.Process(stack.service("scheduler").pid).children()
            victims[:] = [task for worker in workers for task in worker.children()]
        return bool(victims)

    wait_until(runs, "a task")
    with suppress(psutil.NoSuchProcess):
        victims[0].kill()


def kill_supervisor(stack: Stack, _chance: random.Random) -> None:
    """Kill the supervisor, and start the stack again like a person."""
    record = lifecycle.status(stack.home)
    if record is not None:
        record.supervisor.signal(SIGKILL)
        wait_until(lambda: not record.supervisor.alive(), "the supervisor's end")
    lifecycle.up(stack.home)


def lock_database(stack: Stack, chance: random.Random) -> None:
    """Hold the write lock of Airflow's database."""
    with closing(sqlite3.connect(stack.home.airflow / "airflow.db", timeout=60.0, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        time.sleep(chance.uniform(*LASTS_S))
        database.execute("ROLLBACK")


def fill_disk(stack: Stack, chance: random.Random) -> None:
    """Fill the disk of lake, databases, checkpoints and logs."""
    ballast = stack.home.root / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(os.urandom(BLOCK))
    time.sleep(chance.uniform(*LASTS_S))
    ballast.unlink()


def corrupt_file(stack: Stack, chance: random.Random) -> None:
    """Overwrite the newest data file of one of the lake's tables, and restore it later as if from a backup."""
    victim = _newest_file(stack, chance)
    if victim is None:
        return
    content = victim.read_bytes()
    victim.write_bytes(bytes(len(content)))
    time.sleep(chance.uniform(*LASTS_S))
    if victim.exists():
        victim.write_bytes(content)


def lose_file(stack: Stack, chance: random.Random) -> None:
    """Move the newest data file of one of the lake's tables away, and put it back later."""
    victim = _newest_file(stack, chance)
    if victim is None:
        return
    away = stack.home.root / "away.parquet"
    victim.rename(away)
    time.sleep(chance.uniform(*LASTS_S))
    victim.parent.mkdir(parents=True, exist_ok=True)
    away.rename(victim)


def _newest_file(stack: Stack, chance: random.Random) -> Path | None:
    tables = sorted({log.parent for log in stack.home.lake.glob("*/*/_delta_log")})
    files = [file for file in chance.choice(tables).rglob("*.parquet") if "_delta_log" not in file.parts]
    return max(files, key=lambda file: file.stat().st_mtime_ns, default=None)


def freeze_scheduler(stack: Stack, chance: random.Random) -> None:
    """Stop the scheduler for a while."""
    process = stack.service("scheduler")
    process.signal(SIGSTOP)
    time.sleep(chance.uniform(*FROZEN_S))
    with suppress(ProcessLookupError):
        psutil.Process(process.pid).resume()


FAULTS: Mapping[str, Fault] = {
    **{f"{name.replace('-', '_')}_killed": partial(kill_service, name) for name in KILLED},
    "task_killed": kill_task,
    "supervisor_killed": kill_supervisor,
    "scheduler_frozen": freeze_scheduler,
    "database_locked": lock_database,
    "disk_full": fill_disk,
    "file_corrupt": corrupt_file,
    "file_missing": lose_file,
}


def faults_of_stack() -> Iterable[str]:
    """Return the names of the faults that this user may inject: filling a disk requires mounting it first."""
    tried = ("unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt")
    may_mount = subprocess.run(tried, capture_output=True, check=False).returncode == 0
    return FAULTS if may_mount else FAULTS.keys() - {"disk_full"}
