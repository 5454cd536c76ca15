"""Progress of a change of the number of an app's state partitions: one small JSON file, replaced atomically.

The reconciler starts the change, and a job carries it out (``jobs/rescale_state.py``). If either is killed, the
file shows what is left to do. The file stays when all is done: it shows how many partitions the state has until a
driver has been ready with them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import psutil

from millrace.atomic_file import read_if_there, write_atomically
from millrace.model.codec import from_json, to_json
from millrace.model.errors import MillraceError
from millrace.run_folder.driver_records import QueryCheckpoint
from millrace.run_folder.process import ProcessId

FILE = "rescale.json"
ENTRY_POINT = "rescale_state.py"


class Phase(StrEnum):
    """State of the checkpoints and their copies."""

    COPYING = "copying"
    """The checkpoints are as they were; their copies are incomplete."""
    CHANGING = "changing"
    """The copies are complete; the checkpoints may be half changed, or half restored."""
    CHANGED = "changed"
    """The checkpoints have the new number; no driver has committed a batch with it."""
    UNDONE = "undone"
    """The checkpoints are as they were."""
    KEPT = "kept"
    """A driver has committed with the new number: it cannot be undone."""


class Verb(StrEnum):
    """What the job does."""

    CHANGE = "change"
    UNDO = "undo"
    CLEAN = "clean"


@dataclass(frozen=True)
class Rescale:
    """A change of the number of state partitions between two drivers.

    Attributes:
        version: The Deployment version that wants it.
        before: The version that served until then.
        generation: Generation of the driver that is to start with the new number.
        partitions: The new number, >= 1.
        former: The old number.
        checkpoints: Checkpoints of the queries that keep state.
        since: When it started (UTC).
        phase: How far it has come.
        copies: Whether copies of the checkpoints may exist.
        error: Why it was undone; None if it was not.
    """

    version: int
    before: int
    generation: int
    partitions: int
    former: int
    checkpoints: tuple[QueryCheckpoint, ...]
    since: datetime
    phase: Phase = Phase.COPYING
    copies: bool = True
    error: str | None = None

    @property
    def in_force(self) -> int:
        """Number of partitions that the state has, unless a job is running."""
        return self.partitions if self.phase in (Phase.CHANGED, Phase.KEPT) else self.former


def copy_of(checkpoint: str) -> str:
    """Return the address of a checkpoint's copy, next to the checkpoint."""
    return f"{checkpoint.rstrip('/')}.before-rescale"


def read(folder: Path) -> Rescale | None:
    """Return the last change of an app; None before the first.

    Args:
        folder: The app's folder under the run folder.

    Raises:
        MillraceError: If the file cannot be read or is damaged: a checkpoint may be half changed.
    """
    text = read_if_there(folder / FILE, key="run folder")
    try:
        return None if text is None else from_json(Rescale, text)
    except ValueError as error:
        copies = copy_of("*")
        remedy = f"Delete it if no folder {copies} is next to the app's checkpoints, else restore it from a backup."
        raise MillraceError(str(folder / FILE), str(error), "the record of a rescale", remedy) from None


def write(folder: Path, change: Rescale) -> Rescale:
    """Replace the file atomically and return its new content.

    Raises:
        MillraceError: If the folder cannot be written.
    """
    write_atomically(folder / FILE, to_json(change), key="run folder", sync_folder=True)
    return change


def arguments(verb: Verb, folder: Path) -> list[str]:
    """Return the job's arguments."""
    return [verb.value, str(folder)]


def running(folder: Path) -> tuple[ProcessId, ...]:
    """Return the processes of an app's job, whoever started it."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if _is_job(process.cmdline(), folder):
                found.append(ProcessId.of(process.pid))
    return tuple(process for process in found if process.alive())


def _is_job(command_line: Sequence[str], folder: Path) -> bool:
    at = next((i for i, word in enumerate(command_line) if Path(word).name == ENTRY_POINT), None)
    return at is not None and list(command_line[at + 2 : at + 3]) == [str(folder)]
