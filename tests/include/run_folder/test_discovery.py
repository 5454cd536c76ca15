"""Live drivers are found by their command line, and only that exact process gets a signal."""

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

from millrace.run_folder.arguments import DriverArguments
from millrace.run_folder.discovery import find

PATIENCE_S = 600.0
ARGUMENTS = DriverArguments("p", "a", 1, 1, 1, 0, Path("/run"), "/lake", 60.0, 120.0, 60.0, Path("/s.py"))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    script = tmp_path / "run_script.py"
    script.write_text("import time\ntime.sleep(3600)\n")
    children: list[subprocess.Popen[bytes]] = []

    def run(**changes: object) -> subprocess.Popen[bytes]:
        arguments = replace(ARGUMENTS, run_dir=tmp_path, **changes)
        children.append(subprocess.Popen([sys.executable, str(script), *arguments.argv()]))
        return children[-1]

    yield run
    for child in children:
        child.kill()
        child.wait()


def _await(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_process_of_another_user_is_not_one_of_our_drivers(tmp_path, start, monkeypatch) -> None:
    start()
    assert len(find(tmp_path, "p")) == 1
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert find(tmp_path, "p") == ()


def test_find_returns_this_homes_drivers_newest_first(tmp_path, start) -> None:
    first, second = start(generation=9), start(generation=10, args=("--run-dir", "/elsewhere", "ä\n'\""))
    start(pipeline="other")
    assert [(d.generation, d.processes[0].pid) for d in find(tmp_path, "p")] == [(10, second.pid), (9, first.pid)]
    assert find(tmp_path / "another home", "p") == ()


def test_find_by_a_link_to_the_run_folder_is_the_same(tmp_path, start) -> None:
    start()
    (tmp_path / "link").symlink_to(tmp_path)
    assert len(find(tmp_path / "link", "p")) == 1


def test_find_leaves_out_a_dead_driver_that_is_not_reaped(tmp_path, start) -> None:
    child = start()
    (driver,) = find(tmp_path, "p")
    os.kill(child.pid, signal.SIGKILL)
    assert _await(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
    assert find(tmp_path, "p") == ()
    assert not driver.alive()
