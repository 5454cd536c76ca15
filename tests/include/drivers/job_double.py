"""Stands in for the job that rescales state: checkpoints are folders whose file ``partitions`` holds the number.

It writes to the run folder in the same order as the real job. ``behaviour``, a file next to the checkpoint, says
when it fails or is killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from millrace.run_folder import rescale_record
from millrace.run_folder.lock import AppLock
from millrace.run_folder.rescale_record import Phase, Rescale, Verb, copy_of

TICK_S = 0.01


def main(argv: Sequence[str]) -> None:
    verb, folder = Verb(argv[0]), Path(argv[1])
    task = rescale_record.read(folder)
    assert task is not None
    behaviour = Path(task.checkpoints[0].folder).with_name("behaviour")
    how = behaviour.read_text() if behaviour.exists() else ""
    if verb is not Verb.CLEAN:
        assert AppLock(folder).try_acquire(), "a driver runs"
    if verb is Verb.CHANGE:
        _change(folder, task, how)
    elif verb is Verb.UNDO:
        _restored(folder, task, task.error or "it was interrupted")
    else:
        _cleaned(folder, task)


def _change(folder: Path, task: Rescale, how: str) -> None:
    while how == "slow" and not Path(task.checkpoints[0].folder).with_name("go on").exists():
        time.sleep(TICK_S)
    for checkpoint in task.checkpoints:
        shutil.copytree(checkpoint.folder, copy_of(checkpoint.folder))
    if how == "dies copying":
        os.kill(os.getpid(), signal.SIGKILL)
    task = rescale_record.write(folder, replace(task, phase=Phase.CHANGING))
    for checkpoint in task.checkpoints:
        Path(checkpoint.folder, "partitions").write_text("half")
    if how == "dies changing":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "refuses":
        _restored(folder, task, "Spark refuses it")
        return
    for checkpoint in task.checkpoints:
        Path(checkpoint.folder, "partitions").write_text(str(task.partitions))
    rescale_record.write(folder, replace(task, phase=Phase.CHANGED))


def _restored(folder: Path, task: Rescale, error: str) -> None:
    if task.phase is not Phase.COPYING:
        task = rescale_record.write(folder, replace(task, phase=Phase.CHANGING, error=error))
        for checkpoint in task.checkpoints:
            shutil.rmtree(checkpoint.folder)
            shutil.copytree(copy_of(checkpoint.folder), checkpoint.folder)
    _cleaned(folder, rescale_record.write(folder, replace(task, phase=Phase.UNDONE, error=error)))


def _cleaned(folder: Path, task: Rescale) -> None:
    for checkpoint in task.checkpoints:
        shutil.rmtree(copy_of(checkpoint.folder), ignore_errors=True)
    rescale_record.write(folder, replace(task, copies=False))
