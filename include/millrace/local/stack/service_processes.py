"""Start a service in its own session, and stop every process of that session, even if its leader has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from millrace.local.stack.service import Service
from millrace.run_folder.process import ProcessId

MARK = "MILLRACE_STACK"
"""Variable with the home of the stack that a process belongs to."""

OTHERS = ("AIRFLOW", "MLFLOW", "_MLFLOW")
OWN = (
    *("AIRFLOW_CONN_", "AIRFLOW_VAR_"),
    *(f"AIRFLOW__{section}__" for section in ("EMAIL", "LOGGING", "METRICS", "SECRETS", "SENTRY", "SMTP", "TRACES")),
)
"""Variables with which users set connections, mail, remote logs, metrics and secrets of the stack's Airflow."""

GRACE_S = 15.0


def start(service: Service, home: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start a service as the leader of its own session and process group."""
    # variables exported for another Airflow or MLflow must not reach this one
    kept = {k: v for k, v in os.environ.items() if k.startswith(OWN) or not k.startswith(OTHERS)}
    with log.open("ab") as out:
        return subprocess.Popen(
            service.argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=home,
            env={**kept, **service.env, MARK: str(home)},
            start_new_session=True,
        )


def members(leader: ProcessId, home: Path) -> list[psutil.Process]:
    """Find the living processes of a service's session, even if its leader has ended.

    A session outlives its leader, and its number is not reused while it has members. The mark excludes a session
    that got the number after this one had ended.

    Args:
        leader: The session's leader, as it was started.
        home: The home of the stack.
    """
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            in_session = os.getsid(process.pid) == leader.pid and leader.precedes(process.pid)
            if in_session and process.status() != psutil.STATUS_ZOMBIE and _marked(process, leader, home):
                processes.append(process)
    return processes


def _marked(process: psutil.Process, leader: ProcessId, home: Path) -> bool:
    if process.pid == leader.pid:
        return leader.alive()
    mark = process.environ().get(MARK)
    if mark is None:  # a process that sets its own title overwrites its environment; its folder stays
        return os.path.realpath(process.cwd()) == os.path.realpath(home)
    return mark == str(home)


def stop(leaders: Iterable[ProcessId], home: Path, grace_s: float = GRACE_S) -> int:
    """Stop whole sessions: TERM, then KILL after a grace period.

    Args:
        leaders: The sessions' leaders, as they were started.
        home: The home of the stack.
        grace_s: Seconds from TERM to KILL.

    Returns:
        How many processes were found alive.
    """
    sessions = list(leaders)
    living = [p for leader in sessions for p in members(leader, home)]
    seen = len(living)
    _signal(living, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while living and time.monotonic() < deadline:
        psutil.wait_procs(living, timeout=0.2)
        living = [p for leader in sessions for p in members(leader, home)]
    while living:
        _signal(living, signal.SIGKILL)
        psutil.wait_procs(living, timeout=1.0)
        living = [p for leader in sessions for p in members(leader, home)]
    return seen


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        # psutil compares pid and start time before it signals
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
