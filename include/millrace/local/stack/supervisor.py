"""Start the stack's services in order, keep them healthy, and stop them all at the end.

Usage: python -m millrace.local.stack.supervisor [--until PID]
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO

from millrace.atomic_file import write_atomically
from millrace.environment.home import Home
from millrace.local.stack import secrets, service_processes
from millrace.local.stack.loopback import USUAL, choose
from millrace.local.stack.service import Service
from millrace.local.stack.services import stack_services, write_config
from millrace.local.stack.stack_record import ServiceRecord, StackRecord
from millrace.model.errors import MillraceError
from millrace.run_folder.process import ProcessId

POLL_S = 0.25
ALREADY_SUPERVISED = 3
"""Exit code if another supervisor runs this stack."""
CHECK_S = 5.0
BACK_OFF_S = (1.0, 2.0, 5.0, 10.0, 30.0)
UNHEALTHY_S = 45.0
"""Restart a service that has been unhealthy this long while its dependencies are healthy: if Airflow's scheduler
ends on a full disk, it waits for its workers forever."""
STEADY_S = 60.0
"""A service that was up this long resets its back-off."""


def record_path(home: Home) -> Path:
    """Return the path of the stack's record."""
    return home.run / "stack.json"


def lock_path(home: Home) -> Path:
    """Return the path of the file that a supervisor locks while it lives."""
    return home.run / "stack.lock"


class Supervisor:
    """Run services until asked to stop.

    Args:
        services: Services to run; ``after`` of a service names only earlier services.
        home: Home with the record and the logs.
        ports: Chosen ports, for the record.
        until: The stack stops when this process ends.
        back_off_s: Seconds before the first, second, ... restart; the last one repeats.
        grace_s: Seconds that a stopping service has before it is killed.
        unhealthy_s: Seconds after which an unhealthy service is ended, and started again.
    """

    def __init__(
        self,
        services: Sequence[Service],
        home: Home,
        ports: Mapping[str, int],
        until: ProcessId | None = None,
        back_off_s: Sequence[float] = BACK_OFF_S,
        grace_s: float = service_processes.GRACE_S,
        unhealthy_s: float = UNHEALTHY_S,
    ) -> None:
        self._services = {s.name: s for s in services}
        self._home, self._until, self._back_off_s = home, until, tuple(back_off_s)
        self._grace_s, self._unhealthy_s = grace_s, unhealthy_s
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._due: dict[str, float] = {}
        self._failures = dict.fromkeys(self._services, 0)
        self._checked = dict.fromkeys(self._services, 0.0)
        self._stopping = self._unwritten = False
        now = time.time()
        records = {name: ServiceRecord(since=now) for name in self._services}
        self.record = StackRecord(ProcessId.of(os.getpid()), now, dict(ports), records)

    def stop(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Ask the loop to end; a signal handler."""
        self._stopping = True

    def run(self) -> None:
        """Run until stopped. All processes it started have ended when this returns."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.stop)
        self._write()
        try:
            while not self._stopping and (self._until is None or self._until.alive()):
                for service in self._services.values():
                    with suppress(OSError):  # a full disk must not end the supervisor
                        self._tend(service)
                if self._unwritten:
                    self._write()
                time.sleep(POLL_S)
        finally:
            self._stop_all()

    def _tend(self, service: Service) -> None:
        record = self.record.services[service.name]
        if record.state == "waiting":
            if all(self.record.services[name].well for name in service.after):
                self._start(service)
        elif record.state == "backing off":
            if time.monotonic() >= self._due[service.name]:
                record.restarts += 1
                self._start(service)
        elif record.state != "done":
            self._watch(service, record)

    def _start(self, service: Service) -> None:
        child = service_processes.start(service, self._home.root, self._home.logs / f"{service.name}.log")
        self._children[service.name] = child
        self.record.services[service.name].process = ProcessId.of(child.pid)
        self._set(service, "starting")

    def _watch(self, service: Service, record: ServiceRecord) -> None:
        code = self._children[service.name].poll()
        if code is not None:
            self._ended(service, record, code)
        elif service.health and record.process and time.monotonic() >= self._next_check(service, record):
            self._checked[service.name] = time.monotonic()
            if service.health(record.process.started):
                self._set(service, "healthy")
            elif record.state == "healthy":
                self._set(service, "unhealthy")
            elif self._is_stuck(service, record):
                service_processes.stop([record.process], self._home.root, self._grace_s)

    def _is_stuck(self, service: Service, record: ServiceRecord) -> bool:
        """Return whether a service stays unhealthy although its dependencies are healthy."""
        needed = [self.record.services[name] for name in service.after]
        since = max([record.since, *(other.since for other in needed)])
        well = all(other.well for other in needed)
        return record.state == "unhealthy" and well and time.time() - since > self._unhealthy_s

    def _next_check(self, service: Service, record: ServiceRecord) -> float:
        return self._checked[service.name] + (POLL_S if record.state == "starting" else CHECK_S)

    def _ended(self, service: Service, record: ServiceRecord, code: int) -> None:
        # processes left by the leader would hold ports and database locks that its successor needs
        if record.process:
            service_processes.stop([record.process], self._home.root, self._grace_s)
        if service.health is None and code == 0:
            self._set(service, "done")
            return
        if record.process and time.time() - record.process.started > STEADY_S:
            self._failures[service.name] = 0
        delay_s = self._back_off_s[min(self._failures[service.name], len(self._back_off_s) - 1)]
        self._failures[service.name] += 1
        self._due[service.name] = time.monotonic() + delay_s
        self._set(service, "backing off")
        with suppress(OSError):
            print(f"{service.name} ended with exit code {code}; restart in {delay_s:g} s", flush=True)

    def _set(self, service: Service, state: str) -> None:
        record = self.record.services[service.name]
        if record.state == state:
            return
        record.state, record.since = state, time.time()
        if self.record.healthy_s is None and all(s.well for s in self.record.services.values()):
            self.record.healthy_s = round(time.time() - self.record.started, 2)
        self._write()

    def _write(self) -> None:
        """Write the record; if that fails, the next poll tries again, and the services are still supervised."""
        try:
            self.record.write(record_path(self._home))
            self._unwritten = False
        except MillraceError as error:
            if not self._unwritten:
                with suppress(OSError):
                    print(f"The stack's record cannot be written yet; its services keep running: {error}", flush=True)
            self._unwritten = True

    def _stop_all(self) -> None:
        # tasks end cleanly only while the api-server answers, so it stops after its dependents
        depended = {name for service in self._services.values() for name in service.after}
        for last in (False, True):
            names = [name for name in reversed(self._services) if (name in depended) is last]
            leaders = [p for name in names if (p := self.record.services[name].process)]
            service_processes.stop(leaders, self._home.root, self._grace_s)
            for name in names:
                if child := self._children.get(name):
                    child.wait()
                self.record.services[name].state = "stopped"
            self._write()
        record_path(self._home).unlink(missing_ok=True)


def stop_orphans(home: Home, grace_s: float = service_processes.GRACE_S) -> int:
    """Stop what a killed supervisor left running.

    Returns:
        How many processes were alive.
    """
    record = StackRecord.read(record_path(home))
    if record is None or record.running:
        return 0
    stopped = service_processes.stop([s.process for s in record.services.values() if s.process], home.root, grace_s)
    record_path(home).unlink(missing_ok=True)
    return stopped


def _ports_path(home: Home) -> Path:
    return home.run / "ports.json"


def usual_ports(home: Home) -> dict[str, int]:
    """Return the preferred port of each service: its last one, because running jobs look for it there."""
    with suppress(OSError, ValueError):
        last = json.loads(_ports_path(home).read_bytes())
        return {name: last.get(name, port) for name, port in USUAL.items()}
    return dict(USUAL)


def _locked(lock: IO[str]) -> bool:
    # a process that only checks whether the stack is up holds the lock for a moment
    for _ in range(10):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(POLL_S)
    return False


def main(args: Sequence[str]) -> int:
    """Supervise the stack of ``MILLRACE_HOME``.

    Returns:
        0, or ALREADY_SUPERVISED.
    """
    parser = argparse.ArgumentParser(description="Supervise the local stack.")
    parser.add_argument("--until", type=int, metavar="PID", help="stop when this process ends")
    options = parser.parse_args(args)
    home = Home.from_env()
    values = secrets.load(home)
    with lock_path(home).open("w") as lock:
        if not _locked(lock):
            return ALREADY_SUPERVISED
        stop_orphans(home)
        write_config(home, values)
        ports = choose(usual_ports(home))
        write_atomically(_ports_path(home), json.dumps(ports), 0o644)
        until = ProcessId.of(options.until) if options.until else None
        Supervisor(stack_services(home, values, ports), home, ports, until).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
