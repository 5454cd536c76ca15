"""A process is identified by its boot and its start tick, despite changes of clocks and pids."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from millrace.run_folder.process import ProcessId, this_process


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    yield started
    started.kill()
    started.wait()


@pytest.mark.parametrize("step_s", [-3600.0, -2.0, 2.0, 3600.0])
def test_process_is_the_same_after_the_wall_clock_was_stepped(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    before = ProcessId.of(child.pid)
    true_start = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: true_start(process) + step_s)
    assert before.alive()
    assert before.precedes(child.pid)
    assert before.signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


def test_signal_is_not_sent_to_another_process_with_the_same_pid(child: subprocess.Popen[bytes]) -> None:
    present = ProcessId.of(child.pid)
    for other in (replace(present, start_ticks=present.start_ticks - 1), replace(present, boot_id="another boot")):
        assert not other.alive() and not other.signal(signal.SIGKILL)
    assert child.poll() is None
    assert present.signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert not present.alive() and not present.signal(signal.SIGKILL)


def test_of_when_the_process_has_ended_then_says_so(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    with pytest.raises(psutil.NoSuchProcess):
        ProcessId.of(child.pid)


def test_this_process_is_alive() -> None:
    assert this_process().alive()
