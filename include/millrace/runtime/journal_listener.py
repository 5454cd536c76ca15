"""Records in the journal when batches commit, when queries are idle or fail, and where they keep their state."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.listener import StreamingQueryListener

from millrace.model.failure import reason
from millrace.model.query_failure import QueryFailure
from millrace.runtime.checkpoints import checkpoint_of
from millrace.runtime.journal import Journal
from millrace.runtime.stop import running

LOG = logging.getLogger(__name__)
KEPT_CHECKPOINTS = 100
"""Checkpoints that a record names, the newest: a script may keep starting queries on new ones."""


class JournalListener(StreamingQueryListener):  # type: ignore[misc]
    """Listens to every query of the driver.

    Args:
        journal: The driver's record.
        queries: Live list of the script's queries.
    """

    def __init__(self, journal: Journal, queries: Sequence[Any]) -> None:
        self._journal, self._queries = journal, queries
        self._names: dict[str, str] = {}
        self._noted: list[Any] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Record that the query runs; nothing is ready yet."""
        name = self._names[str(event.runId)] = str(event.name or event.id)
        self._journal.query_started(name)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Record the end of a committed batch: its trigger's start plus its duration."""
        progress = event.progress
        started = datetime.fromisoformat(progress.timestamp.replace("Z", "+00:00")).astimezone(UTC)
        length = timedelta(milliseconds=progress.durationMs.get("triggerExecution", 0))
        self._journal.committed(started + length)
        self._note_checkpoints()

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Record a trigger without new rows."""
        self._journal.idle(datetime.now(UTC))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Record a failed query: the script may be waiting for another one and never notice."""
        name = self._names.pop(str(event.runId), str(event.id))
        if event.exception is not None:
            self._journal.query_failed(QueryFailure(name, datetime.now(UTC), self._error(event)))

    def _error(self, event: Any) -> str:
        try:
            # the error that its awaitTermination() raises; the event only has the JVM's stack trace
            raised = next((q.exception() for q in list(self._queries) if str(q.runId) == str(event.runId)), None)
        except Exception as error:  # a script may stop its session at any moment
            LOG.debug("The session does not answer: %s", error)
            raised = None
        return reason(raised or StreamingQueryException(str(event.exception)))

    def _note_checkpoints(self) -> None:
        """Record every query's checkpoint once all running queries have run a batch."""
        queries = list(self._queries)
        if queries == self._noted:
            return
        try:
            known = [(query, checkpoint_of(query)) for query in queries]
            if any(checkpoint is None and running(query) for query, checkpoint in known):
                return
        except Exception as error:  # a script may stop its session at any moment
            LOG.debug("The session does not answer: %s", error)
            return
        before = self._journal.record.checkpoints
        by_folder = {c.folder: c for c in (*before, *(checkpoint for _, checkpoint in known if checkpoint is not None))}
        checkpoints = tuple(by_folder.values())[-KEPT_CHECKPOINTS:]
        self._noted = queries
        if checkpoints != before:
            self._journal.keeps(checkpoints)
