"""The supervisor with small real processes: order, restart, clean stop, clean-up after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from millrace.environment.home import Home
from millrace.local.stack import lifecycle, service_processes
from millrace.local.stack.service import Service
from millrace.local.stack.stack_record import StackRecord
from millrace.local.stack.supervisor import record_path
from millrace.run_folder.process import ProcessId

PROGRAM = Path(__file__).with_name("small_stack.py")
PATIENCE_S = 600.0


def await_(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)


class SmallStack:
    def __init__(self, home: Home, *args: str) -> None:
        self.home = home
        self.supervisor = subprocess.Popen([sys.executable, PROGRAM, str(home.root), *args], start_new_session=True)

    def record(self) -> StackRecord:
        record = lifecycle.status(self.home)
        assert record is not None
        return record

    def await_healthy(self) -> StackRecord:
        def healthy() -> bool:
            record = lifecycle.status(self.home)
            mine = record is not None and record.supervisor.pid == self.supervisor.pid
            return bool(mine and record and record.healthy)

        await_(healthy, "the stack is healthy")
        return self.record()

    def pid(self, name: str) -> int:
        process = self.record().services[name].process
        assert process
        return process.pid


def processes_of(home: Home) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            if (
                process.environ().get(service_processes.MARK) == str(home.root)
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    lifecycle.down(home, grace_s=0.5)
    for pid in processes_of(home):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def stack(home: Home) -> Iterator[SmallStack]:
    stack = SmallStack(home)
    stack.await_healthy()
    yield stack
    if stack.supervisor.poll() is None:
        stack.supervisor.kill()
        stack.supervisor.wait()


def test_services_start_in_order_each_once(stack: SmallStack) -> None:
    services = stack.record().services
    assert services["once"].state == "done"
    assert (stack.home.scratch / "once").read_text() == "x"
    assert services["once"].since <= services["web"].since <= services["worker"].since
    assert stack.record().healthy_s is not None


def test_service_when_killed_then_restarts_without_its_leftovers(stack: SmallStack) -> None:
    before = set(processes_of(stack.home))
    first = stack.pid("worker")
    leftovers = {p.pid for p in psutil.Process(first).children()}
    assert leftovers
    os.kill(first, signal.SIGKILL)
    await_(lambda: stack.record().services["worker"].restarts == 1, "the worker was started again")
    record = stack.await_healthy()
    assert stack.pid("worker") != first
    assert record.services["web"].restarts == 0
    assert not leftovers & set(processes_of(stack.home))
    assert len(processes_of(stack.home)) == len(before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_supervisor_when_stopped_then_leaves_no_process(stack: SmallStack, number: signal.Signals) -> None:
    assert processes_of(stack.home)
    stack.supervisor.send_signal(number)
    assert stack.supervisor.wait(PATIENCE_S) == 0
    assert processes_of(stack.home) == []
    assert lifecycle.status(stack.home) is None


@pytest.mark.slow
def test_unhealthy_service_is_restarted_and_its_dependents_stay(stack: SmallStack) -> None:
    stuck, worker = stack.pid("web"), stack.pid("worker")
    (stack.home.scratch / "ready").unlink()  # the worker is unhealthy too, because the other service reports its health
    os.kill(stuck, signal.SIGSTOP)
    await_(lambda: stack.record().services["web"].restarts == 1, "the one that is stuck was started again")
    (stack.home.scratch / "ready").touch()
    assert stack.await_healthy().services["worker"].restarts == 0
    assert stack.pid("web") != stuck and stack.pid("worker") == worker


def test_service_is_restarted_while_the_record_is_not_writable(stack: SmallStack) -> None:
    killed, everybody = stack.pid("web"), set(processes_of(stack.home))
    away = stack.home.run.with_name("away")
    stack.home.run.rename(away)
    stack.home.run.write_text("no folder")  # like a full disk, even for root
    os.kill(killed, signal.SIGKILL)
    await_(lambda: bool(set(processes_of(stack.home)) - everybody), "another process in its place")
    stack.home.run.unlink()
    away.rename(stack.home.run)
    await_(lambda: stack.record().services["web"].restarts == 1, "the record is written again")
    assert stack.await_healthy().services["worker"].restarts == 0


def test_down_when_the_supervisor_was_killed_then_stops_its_leftovers(stack: SmallStack) -> None:
    stack.supervisor.kill()
    stack.supervisor.wait()
    record = stack.record()
    assert not record.running
    assert processes_of(stack.home)
    assert lifecycle.down(stack.home, grace_s=0.5) >= 2
    assert processes_of(stack.home) == []
    assert lifecycle.down(stack.home, grace_s=0.5) == 0


def test_start_after_a_kill_first_stops_leftovers(stack: SmallStack) -> None:
    stack.supervisor.kill()
    stack.supervisor.wait()
    old = set(processes_of(stack.home))
    again = SmallStack(stack.home)
    again.await_healthy()
    assert not old & set(processes_of(stack.home))
    again.supervisor.terminate()
    again.supervisor.wait(PATIENCE_S)


def test_supervisor_when_the_process_it_serves_ends_then_stops_too(home: Home) -> None:
    served = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    stack = SmallStack(home, str(served.pid))
    stack.await_healthy()
    served.kill()
    served.wait()
    assert stack.supervisor.wait(PATIENCE_S) == 0
    assert processes_of(home) == []


TITLED = (
    "import os, pathlib, sys, time, setproctitle\n"
    "if os.fork() == 0:\n"
    "    setproctitle.setproctitle('worker ' * 2000)\n"
    "    pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))\n"
    "time.sleep(3600)\n"
)


def test_stop_reaches_a_titled_worker_whose_leader_is_gone(home: Home) -> None:
    home.ensure()
    told = home.scratch / "worker"
    service = Service("scheduler", (sys.executable, "-c", TITLED, str(told)))
    started = service_processes.start(service, home.root, home.scratch / "log")
    leader = ProcessId.of(started.pid)
    await_(lambda: told.exists() and told.read_text().isdigit(), "the worker runs")
    worker = psutil.Process(int(told.read_text()))
    assert service_processes.MARK not in worker.environ(), "the title was to take the environment's place"
    started.kill()
    started.wait()
    assert service_processes.stop([leader], home.root, grace_s=0.5) == 1
    await_(lambda: _ended(worker), "the worker ends")


def _ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_stop_leaves_another_owners_process_alone(home: Home) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
    try:
        home.ensure()
        gone = replace(ProcessId.of(stranger.pid), start_ticks=1)
        record = StackRecord.read(_written(home, gone))
        assert record and not record.running
        assert lifecycle.down(home) == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def _written(home: Home, process: ProcessId) -> Path:
    from millrace.local.stack.stack_record import ServiceRecord

    service = ServiceRecord("healthy", process.started, process)
    StackRecord(process, process.started, {}, {"web": service}).write(record_path(home))
    return record_path(home)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"services": 3}'])
def test_status_when_the_record_is_broken_then_the_stack_counts_as_down(home: Home, content: str) -> None:
    home.ensure()
    record_path(home).write_text(content)
    assert lifecycle.status(home) is None
