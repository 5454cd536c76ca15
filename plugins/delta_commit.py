"""Trigger evaluations when a pipeline's app commits to a Delta table, or when it has been silent for too long.

``millrace.lake.commit_follower`` decides which commits belong to a pipeline. Maintenance and other pipelines' commits
to the same table trigger nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from time import monotonic
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from millrace.model.errors import MillraceError

if TYPE_CHECKING:
    from millrace.lake.commit_follower import CommitFollower


FOLDER_POLL_S, BUCKET_POLL_S = 0.5, 5.0
"""Each poll of a bucket takes tens of milliseconds and costs a little money."""


class DeltaCommitTrigger(BaseEventTrigger):
    """Fire at start if the table has any commit, then after the pipeline's commits, at most once per period.

    It also fires if the pipeline should run but committed nothing for ``silence_s``, because a hanging pipeline commits
    nothing and needs an evaluation too. If the pipeline's batches are far apart, it waits longer.

    The next event covers all commits made within a period or while the triggerer was down: an event only requests an
    evaluation, and the evaluation reads from its own cursor.

    Args:
        lake: Folder or URI of the lake.
        table: The table; it need not exist yet.
        pipeline: Name of the pipeline whose commits count.
        period_s: Least time between two events, seconds, >= 0.
        silence_s: Time without an event after which it fires anyway, seconds, > 0; None: never. The pace of the
            pipeline's batches is added (:func:`~millrace.lake.pace.late_after_s`).
        poll_s: Time between two polls of the table's log, seconds, > 0; None: 0.5 s for a folder, 5 s for a bucket.
    """

    def __init__(
        self,
        lake: str,
        table: str,
        pipeline: str,
        period_s: float,
        silence_s: float | None = None,
        poll_s: float | None = None,
    ) -> None:
        super().__init__()
        self.lake = lake
        self.table = table
        self.pipeline = pipeline
        self.period_s = period_s
        self.silence_s = silence_s
        self.poll_s = poll_s or (BUCKET_POLL_S if "://" in lake else FOLDER_POLL_S)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments."""
        return (
            # a literal: Airflow also has plugins/ itself on sys.path, where __module__ could be another name
            "millrace.plugins.delta_commit.DeltaCommitTrigger",
            {
                "lake": self.lake,
                "table": self.table,
                "pipeline": self.pipeline,
                "period_s": self.period_s,
                "silence_s": self.silence_s,
                "poll_s": self.poll_s,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield at most one event per period while there are commits."""
        log = await asyncio.to_thread(self._follower)
        pending, due = False, monotonic()
        fired, late_s = due, self.silence_s
        while True:
            try:
                if await asyncio.to_thread(log.advance):
                    pending = True
            # an unreadable folder may become readable; a dead trigger stays dead
            except (OSError, MillraceError) as error:
                self.log.warning("%s: %s", self.table, error)
            if late_s is not None and monotonic() - fired >= late_s:
                late_s = await asyncio.to_thread(self._late_after_s)
                if monotonic() - fired >= late_s:
                    fired = monotonic()
                    pending |= await asyncio.to_thread(self._is_wanted)
            if pending and monotonic() >= due:
                pending, fired, late_s = False, monotonic(), self.silence_s
                due = fired + self.period_s
                yield TriggerEvent({"pipeline": self.pipeline, "version": log.version})
            await asyncio.sleep(self.poll_s)

    def _follower(self) -> CommitFollower:
        # imported only when the trigger runs: parsing DAGs must not import pyarrow
        from millrace.lake.commit_follower import CommitFollower
        from millrace.lake.store import Lake

        return CommitFollower(Lake(self.lake).log(self.table), self.pipeline)

    def _late_after_s(self) -> float:
        """Return the time without an event after which it fires anyway, seconds."""
        from millrace.lake.pace import late_after_s, read_pace_s
        from millrace.lake.store import Lake

        silence_s = self.silence_s or 0.0
        try:
            return late_after_s(read_pace_s(Lake(self.lake), self.pipeline), silence_s)
        except MillraceError:
            return silence_s

    def _is_wanted(self) -> bool:
        """Return whether the pipeline should run; True if its Deployment cannot be read."""
        from millrace.lake.deployments import DeploymentStore
        from millrace.lake.store import Lake

        try:
            deployment = DeploymentStore(Lake(self.lake)).latest(self.pipeline)
        except MillraceError:
            return True
        return deployment is not None and deployment.kept_running
