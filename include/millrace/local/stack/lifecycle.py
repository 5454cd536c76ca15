"""Start and stop the stack from any process, and report its state."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from millrace.environment.home import Home
from millrace.local.stack import supervisor
from millrace.local.stack.service_processes import GRACE_S
from millrace.local.stack.stack_record import StackRecord
from millrace.model.errors import MillraceError
from millrace.places import REPO, SOURCES

POLL_S = 0.2
GIVE_UP_AFTER_RESTARTS = 3
STOP_S = 60.0

FOLDERS, LAKE = "MILLRACE_PIPELINES", "MILLRACE_LAKE"
"""Environment variables that name folders of specs, and the lake."""
Watch = Callable[[StackRecord], None]


def status(home: Home) -> StackRecord | None:
    """Read the state of the stack.

    Returns:
        Its record; None if it is down. A record that is not ``running`` belongs to a supervisor that was killed.
    """
    return StackRecord.read(supervisor.record_path(home))


def started_otherwise(home: Home) -> MillraceError | None:
    """Return which variable the running stack was started with another value of; None if there is none."""
    record = status(home)
    if record is None or not record.running:
        return None
    with suppress(psutil.Error):
        of_stack, present = psutil.Process(record.supervisor.pid).environ(), environment(home)
        for name in (FOLDERS, LAKE):
            if (before := of_stack.get(name, "")) != (now := present.get(name, "")):
                allowed = f"{before or 'no value'}, with which the stack was started"
                return MillraceError(name, now, allowed, "To change it, run ./millrace down, then ./millrace up.")
    return None


def up(home: Home, *, until_pid: int | None = None, wait_s: float = 300.0, watch: Watch | None = None) -> StackRecord:
    """Start the stack if it is down and wait until all of it is healthy.

    Args:
        home: Home of the stack.
        until_pid: Stop the stack when this process ends; by default it runs until ``down``.
        wait_s: Seconds to wait for health.
        watch: Called with the record at every poll.

    Returns:
        The record of the healthy stack.

    Raises:
        MillraceError: It did not become healthy; the message names the log to read.
    """
    home.ensure()
    child = None if _supervised(home) else _spawn(home, until_pid)
    try:
        return _healthy(home, child, wait_s, watch)
    except BaseException:  # Ctrl-C too: without a record, `down` does not find the supervisor
        record = status(home)
        if child is not None and (record is None or not record.running):
            child.terminate()
            child.wait()
        raise


def _healthy(home: Home, child: subprocess.Popen[bytes] | None, wait_s: float, watch: Watch | None) -> StackRecord:
    """Return the record of the stack once all of it is healthy."""
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        record = status(home)
        if record and record.running:
            if watch:
                watch(record)
            if record.healthy:
                return record
            _raise_if_hopeless(home, record)
        elif child and child.poll() not in (None, supervisor.ALREADY_SUPERVISED):
            raise _unhealthy(home, "supervisor", f"exit code {child.returncode}")
        time.sleep(POLL_S)
    record = status(home)
    sick = [name for name, s in record.services.items() if not s.well] if record else []
    raise _unhealthy(home, (sick or ["supervisor"])[0], f"not healthy after {wait_s:g} s")


def down(home: Home, grace_s: float = GRACE_S) -> int:
    """Stop the stack, or what a killed supervisor left running.

    Args:
        home: Home of the stack.
        grace_s: Seconds before processes left by a killed supervisor are killed.

    Returns:
        How many of its services were running; 0 if it was down.
    """
    record = _record_soon(home)
    if record is None:
        return 0
    if not record.running:
        return supervisor.stop_orphans(home, grace_s)
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(record.supervisor.pid)
        process.terminate()
        try:
            process.wait(STOP_S)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait()
    supervisor.stop_orphans(home, grace_s)
    return sum(1 for s in record.services.values() if s.state not in ("waiting", "done"))


@contextmanager
def attached(home: Home, watch: Watch | None = None) -> Iterator[StackRecord]:
    """Keep the stack up while a block runs; it stops even if this process is killed.

    A stack that was already up stays up.
    """
    mine = not _supervised(home)
    try:
        yield up(home, until_pid=os.getpid() if mine else None, watch=watch)
    finally:
        if mine:
            down(home)


def log_files(home: Home) -> dict[str, Path]:
    """List the logs of services, and then those of drivers, by name."""
    return {path.stem: path for folder in (home.logs, home.logs / "drivers") for path in sorted(folder.glob("*.log"))}


def tail(path: Path, lines: int) -> list[str]:
    """Read the last lines of a log, each as a whole."""
    with path.open("rb") as log:
        end, length = log.seek(0, os.SEEK_END), 400 * lines
        while lines:
            log.seek(max(0, end - length))
            found = log.read().splitlines()
            if len(found) > lines or length >= end:
                return [line.decode(errors="replace") for line in found[-lines:]]
            length *= 4
    return []


def last_line(path: Path) -> str:
    """Return the start of the last line of a log that is not empty; an empty text if there is none."""
    return next((line for line in reversed(tail(path, 20)) if line.strip()), "")[:200]


def _supervised(home: Home) -> bool:
    path = supervisor.lock_path(home)
    if not path.exists():
        return False
    with path.open("r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _record_soon(home: Home) -> StackRecord | None:
    """Read the record; wait a few seconds for a supervisor that has just started to write one."""
    deadline = time.monotonic() + 10.0
    while (record := status(home)) is None and _supervised(home) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return record


def _spawn(home: Home, until_pid: int | None) -> subprocess.Popen[bytes]:
    until = ["--until", str(until_pid)] if until_pid else []
    with (home.logs / "supervisor.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "millrace.local.stack.supervisor", *until],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=REPO,
            env=environment(home),
            start_new_session=True,
        )


def environment(home: Home) -> dict[str, str]:
    """Return the environment to start the stack with: the caller's variables, with absolute paths."""
    folders = os.environ.get(FOLDERS, "").split(os.pathsep)
    named = os.pathsep.join(str(Path(folder).expanduser().resolve()) for folder in folders if folder)
    return {
        **os.environ,
        "MILLRACE_HOME": str(home.root),
        "PYTHONPATH": str(SOURCES),
        **({FOLDERS: named} if named else {}),
    }


def _raise_if_hopeless(home: Home, record: StackRecord) -> None:
    for name, service in record.services.items():
        if record.healthy_s is None and service.restarts >= GIVE_UP_AFTER_RESTARTS:
            down(home)
            raise _unhealthy(home, name, f"ended {service.restarts + 1} times")


def _unhealthy(home: Home, name: str, what: str) -> MillraceError:
    log = home.logs / f"{name}.log"
    last = last_line(log) if log.exists() else ""
    remedy = f"Read {log}, then run ./millrace up again."
    return MillraceError(f"stack.{name}", f"{what}: {last}", "healthy", remedy)
