"""Fires an Asset when a pipeline's app commits to a Delta table, or has been silent for long: event-driven evaluations.

A commit belongs to a pipeline if it carries an application transaction (``txn`` action) whose ``appId`` starts with
``<pipeline>/``. Maintenance and other pipelines' commits to the same table carry none, and wake nobody.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

NOTHING = -1
"""Version of a table that is not there yet."""


class DeltaCommitTrigger(BaseEventTrigger):
    """Fires at start if the table has any commit, and then after a pipeline's commits, at most once a period.

    While the pipeline is to run and nothing of it was committed for ``silence_s``, it fires as well: what hangs commits
    nothing, and that has to be evaluated too.

    Whatever was committed while the triggerer was down or within a period is covered by the next event: the
    evaluation that it starts reads from its own cursor, so events say "evaluate", never "what is new".

    Args:
        log_folder: The table's ``_delta_log`` folder; it need not exist yet.
        pipeline: Name of the pipeline whose commits count.
        period_s: Least time between two events, seconds, >= 0.
        poll_s: Time between two polls of the folder, seconds, > 0.
        lake: The lake that says whether the pipeline is to run.
        silence_s: Time without an event after which it fires all the same, seconds, > 0; None for never.
    """

    def __init__(
        self,
        log_folder: str,
        pipeline: str,
        period_s: float,
        poll_s: float = 0.5,
        lake: str = "",
        silence_s: float | None = None,
    ) -> None:
        super().__init__()
        self.log_folder = log_folder
        self.lake = lake
        self.silence_s = silence_s
        self.pipeline = pipeline
        self.period_s = period_s
        self.poll_s = poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments."""
        return (
            # spelled out: Airflow also has plugins/ itself on sys.path, where __module__ could be another name
            "plugins.delta_commit.DeltaCommitTrigger",
            {
                "log_folder": self.log_folder,
                "pipeline": self.pipeline,
                "period_s": self.period_s,
                "poll_s": self.poll_s,
                "lake": self.lake,
                "silence_s": self.silence_s,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event a period while there are commits."""
        log = CommitLog(Path(self.log_folder), self.pipeline)
        pending, due = False, monotonic()
        fired = due
        while True:
            try:
                if await asyncio.to_thread(log.advance):
                    pending = True
            except OSError as error:  # an unreadable folder may become readable; a dead trigger stays dead
                self.log.warning("%s: %s", self.log_folder, error)
            silent = self.silence_s is not None and monotonic() - fired >= self.silence_s
            if silent:
                fired = monotonic()
                pending |= await asyncio.to_thread(self._is_wanted)
            if pending and monotonic() >= due:
                pending, fired = False, monotonic()
                due = fired + self.period_s
                yield TriggerEvent({"pipeline": self.pipeline, "version": log.version})
            await asyncio.sleep(self.poll_s)

    def _is_wanted(self) -> bool:
        """Say whether the pipeline is to run; what cannot be read has to be evaluated."""
        from include.lake.deployments import DeploymentStore
        from include.lake.store import Lake
        from include.model.errors import MillraceError

        try:
            deployment = DeploymentStore(Lake(self.lake)).latest(self.pipeline)
        except MillraceError:
            return True
        return deployment is not None and deployment.running


class CommitLog:
    """Follows a ``_delta_log`` folder: which versions are new, and are any of them the pipeline's.

    A quiet poll costs two look-ups of a name, however long the log is.

    Args:
        folder: The ``_delta_log`` folder.
        pipeline: Name of the pipeline whose commits count.
    """

    def __init__(self, folder: Path, pipeline: str) -> None:
        self.version = NOTHING
        self._folder = folder
        self._app_id_prefix = f"{pipeline}/"

    def advance(self) -> bool:
        """Move on to the newest version and return True if a commit on the way counts.

        Raises:
            OSError: If the folder cannot be read.
        """
        if self.version == NOTHING or not self._file(self.version).exists():
            return self._jump()
        counts = False
        while (file := self._file(self.version + 1)).exists():
            ours = self._is_ours(file)
            if ours is None and not self._file(self.version + 2).exists():
                break  # still being written: read it again at the next poll
            self.version += 1
            # what cannot be read counts: an evaluation too many costs nothing, a missed one does
            counts |= ours is not False
        return counts

    def _jump(self) -> bool:
        """Go to the newest version by listing: at start, after a clean-up of the log, or if the table was made anew."""
        newest = max((_version_of(name) for name in self._names()), default=NOTHING)
        moved = newest != self.version
        self.version = newest
        return moved and newest != NOTHING

    def _names(self) -> list[str]:
        try:
            return [file.name for file in self._folder.iterdir()]
        except FileNotFoundError:
            return []

    def _file(self, version: int) -> Path:
        return self._folder / f"{version:020d}.json"

    def _is_ours(self, file: Path) -> bool | None:
        """Say whether a commit carries a transaction of the pipeline; None if it cannot be read."""
        try:
            actions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]
            if not actions:
                return None
            return any(str(a["txn"]["appId"]).startswith(self._app_id_prefix) for a in actions if "txn" in a)
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _version_of(name: str) -> int:
    """Return the version in the name of a commit or checkpoint, ``NOTHING`` for any other file."""
    number, _, rest = name.partition(".")
    is_version = len(number) == 20 and number.isdecimal() and rest.endswith(("json", "parquet"))
    return int(number) if is_version else NOTHING
