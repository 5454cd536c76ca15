"""The app's lock with real processes that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from millrace.run_folder.lock import CHECKPOINT, AppLock, holders

ROOT = Path(__file__).resolve().parents[3]
HOLDER = Path(__file__).with_name("holder.py")
PATIENCE_S = 600.0


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    children: list[subprocess.Popen[str]] = []
    orphans: list[int] = []

    def start(*options: str) -> tuple[subprocess.Popen[str], str]:
        argv = [sys.executable, str(HOLDER), str(tmp_path), *options]
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        children.append(child)
        assert child.stdout is not None
        answer = child.stdout.readline().strip()
        if "fork" in options:
            orphans.append(int(child.stdout.readline()))
        return child, answer

    yield start
    for child in children:
        child.kill()
        child.wait()
    for pid in orphans:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_lock_is_refused_until_its_holder_is_killed(tmp_path: Path, hold) -> None:
    child, answer = hold()
    assert answer == "True"
    lock = AppLock(tmp_path)
    assert not lock.try_acquire()
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert lock.try_acquire()


def test_lock_is_free_even_if_the_holders_child_lives_on(tmp_path: Path, hold) -> None:
    child, _ = hold("fork")
    child.kill()
    child.wait()
    assert AppLock(tmp_path).try_acquire()


def test_lock_when_released_then_goes_to_another_process(tmp_path: Path, hold) -> None:
    lock = AppLock(tmp_path)
    assert lock.try_acquire()
    assert hold()[1] == "False"
    lock.release()
    assert hold()[1] == "True"


def test_lock_when_taken_twice_by_its_holder_then_stays_one_lock(tmp_path: Path, hold) -> None:
    lock = AppLock(tmp_path)
    assert lock.try_acquire() and lock.try_acquire()
    assert hold()[1] == "False"


def test_holders_name_the_process_while_held_and_no_one_after(tmp_path: Path, hold) -> None:
    assert holders(tmp_path) == ()
    child, _ = hold()
    assert holders(tmp_path) == (child.pid,)
    child.kill()
    child.wait()
    deadline = time.monotonic() + PATIENCE_S
    while holders(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert holders(tmp_path) == ()


def test_lock_of_a_checkpoint_is_separate_from_that_of_an_app(tmp_path: Path, hold) -> None:
    child, _ = hold()
    lock = AppLock(tmp_path, CHECKPOINT)
    assert holders(tmp_path, CHECKPOINT) == ()
    assert lock.try_acquire()
    assert holders(tmp_path) == (child.pid,)
