"""The local stack: time to set up, time to health, memory, and downtime of a restart."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.downtime import downtime
from benchmarks.record import Record, at_most
from millrace.environment.home import Home
from millrace.local.stack import lifecycle, service_processes
from millrace.local.stack.stack_record import StackRecord
from millrace.places import REPO

HEALTHY_LIMIT_S = 45.0
MEMORY_LIMIT_GB = 3.0
SETTLE_S = 10.0
# files that set-up reads; a copy of them is as good as a fresh clone
SOURCES = ("millrace", "requirements.lock", "include", "jobs", "plugins", "dags", "optimizers")


def run(quick: bool) -> list[Record]:
    """Measure the stack in a temporary home.

    Args:
        quick: Start the stack once and skip the set-up from scratch.
    """
    records = [_repeated_set_up()] if quick else [_fresh_set_up(), _repeated_set_up()]
    with _temporary_home() as home:
        records += _starts(home, ("first start",) if quick else ("first start", "later start"))
    return [*records, *downtime(quick)]


@contextmanager
def _temporary_home() -> Iterator[Home]:
    with tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder:
        home = Home(Path(folder).resolve())
        try:
            yield home
        finally:
            lifecycle.down(home)


def memory_at_rest_mb() -> float:
    """Return the memory of the whole stack at rest in a temporary home, MiB; a page shared by several counts once."""
    with _temporary_home() as home:
        record = lifecycle.up(home)
        time.sleep(SETTLE_S)
        return sum(r.value for r in _memory(record, home) if r.figure == "pss" and r.unit == "MB")


def _fresh_set_up() -> Record:
    """Set up a copy with an empty home, without help from this machine's caches."""
    with tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder:
        copy, empty = Path(folder) / "millrace", Path(folder) / "home"
        copy.mkdir()
        empty.mkdir()
        for name in SOURCES:
            source = REPO / name
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, copy / name)
        took_s = _timed([str(copy / "millrace"), "setup"], {"HOME": str(empty), "UV_CACHE_DIR": str(empty / "uv")})
    return Record("stack", "set-up from nothing", "millrace", "duration", round(took_s, 1), "s")


def _repeated_set_up() -> Record:
    took_s = sorted(_timed([str(REPO / "millrace"), "setup"], {}) for _ in range(5))[2]
    return Record("stack", "set-up in place", "millrace", "duration", round(took_s, 3), "s", n=5)


def _timed(argv: list[str], env: dict[str, str]) -> float:
    kept = {k: v for k, v in os.environ.items() if k not in ("MILLRACE_HOME", "PYTHONPATH", "VIRTUAL_ENV")}
    began = time.perf_counter()
    subprocess.run(argv, check=True, env={**kept, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def _starts(home: Home, scenarios: tuple[str, ...]) -> list[Record]:
    records = []
    for scenario in scenarios:
        began = time.perf_counter()
        record = lifecycle.up(home)
        took_s = time.perf_counter() - began
        target, holds = at_most(took_s, HEALTHY_LIMIT_S)
        healthy = Record("stack", scenario, "millrace", "healthy in", round(took_s, 1), "s", target=target, holds=holds)
        records.append(healthy)
        time.sleep(SETTLE_S)
        memory = _memory(record, home)
        began = time.perf_counter()
        lifecycle.down(home)
        took_s = time.perf_counter() - began
        records.append(Record("stack", scenario, "millrace", "stopped in", round(took_s, 1), "s"))
    return records + memory


def _memory(record: StackRecord, home: Home) -> list[Record]:
    """Sum up each service's processes; a page shared by forked processes counts once (PSS)."""
    records, total = [], 0.0
    leaders = {name: s.process for name, s in record.services.items() if s.process and s.state != "done"}
    for name, leader in {"supervisor": record.supervisor, **leaders}.items():
        processes = service_processes.members(leader, home.root) or [psutil.Process(leader.pid)]
        facts = [p.memory_full_info() for p in processes]
        for figure, value in {
            "rss": sum(f.rss for f in facts),
            "uss": sum(f.uss for f in facts),
            "pss": sum(getattr(f, "pss", f.uss) for f in facts),
        }.items():
            records.append(Record("stack", f"memory of {name}", "millrace", figure, value >> 20, "MB", n=len(facts)))
        total += sum(getattr(f, "pss", f.uss) for f in facts) / 2**30
    target, holds = at_most(total, MEMORY_LIMIT_GB)
    whole = Record("stack", "memory of the stack", "millrace", "pss", round(total, 2), "GB", target=target, holds=holds)
    return [*records, whole]
