"""Follows a table's log commit by commit and finds the commits of a pipeline.

A commit belongs to a pipeline if it has an application transaction (``txn`` action) whose ``appId`` starts with
``<pipeline>/``. Maintenance commits have none.
"""

from __future__ import annotations

import json
from itertools import chain

from millrace.lake.log import NOTHING, DeltaLog


class CommitFollower:
    """Moves along a log and reports whether any of the new versions are the pipeline's.

    A quiet poll costs two lookups of a name, however long the log is.

    Args:
        log: The table's log; the table need not exist yet.
        pipeline: Name of the pipeline whose commits count.

    Attributes:
        version: The version reached; -1 before the first.
    """

    def __init__(self, log: DeltaLog, pipeline: str) -> None:
        self.version = NOTHING
        self._log = log
        self._app_id_prefix = f"{pipeline}/"

    def advance(self) -> bool:
        """Move to the newest version and return True if a commit on the way counts.

        Raises:
            OSError: If an entry cannot be looked up.
            MillraceError: If the log's folder cannot be read.
        """
        if self.version == NOTHING or not self._log.has(self.version):
            return self._jump()
        counts = False
        while self._log.has(self.version + 1):
            ours = self._is_ours(self.version + 1)
            if ours is None and not self._log.has(self.version + 2):
                break  # still being written: read it again at the next poll
            self.version += 1
            # an unreadable commit counts: an extra evaluation costs nothing, a missed one does
            counts |= ours is not False
        return counts

    def _jump(self) -> bool:
        """Go to the newest version by listing: at start, after the log was cleaned, or if the table was recreated."""
        newest = max(chain(*self._log.versions()), default=NOTHING)
        moved = newest != self.version
        self.version = newest
        return moved and newest != NOTHING

    def _is_ours(self, version: int) -> bool | None:
        """Return whether a commit has a transaction of the pipeline; None if it cannot be read."""
        try:
            actions = [json.loads(line) for line in self._log.text(version).splitlines() if line]
            if not actions:
                return None
            return any(str(a["txn"]["appId"]).startswith(self._app_id_prefix) for a in actions if "txn" in a)
        except (OSError, ValueError, KeyError, TypeError):
            return None
