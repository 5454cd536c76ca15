"""Notes in the journal when batches commit, when a query is idle, and where queries keep their state."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from millrace.runtime.checkpoints import checkpoint_of
from millrace.runtime.journal import Journal

LOG = logging.getLogger(__name__)


class JournalListener(StreamingQueryListener):  # type: ignore[misc]
    """Listens to every query of the driver.

    Args:
        journal: The driver's record.
        queries: The script's queries, as they are started.
    """

    def __init__(self, journal: Journal, queries: Sequence[Any]) -> None:
        self._journal, self._queries = journal, queries
        self._changed = threading.Condition()
        self._terminated: set[str] = set()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Nothing is ready yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Note the end of a committed batch: its trigger's start plus its length."""
        progress = event.progress
        started = datetime.fromisoformat(progress.timestamp.replace("Z", "+00:00")).astimezone(UTC)
        length = timedelta(milliseconds=progress.durationMs.get("triggerExecution", 0))
        self._journal.committed(started + length)
        self._note_checkpoints()

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Note a trigger without new rows."""
        self._journal.idle(datetime.now(UTC))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Note that no more events of this run will come."""
        with self._changed:
            self._terminated.add(str(event.runId))
            self._changed.notify_all()

    def await_last(self, run_ids: set[str], timeout_s: float) -> bool:
        """Wait until the last event of these runs was handled: Spark delivers events after the fact."""
        with self._changed:
            return self._changed.wait_for(lambda: run_ids <= self._terminated, timeout_s)

    def _note_checkpoints(self) -> None:
        """Note every query's checkpoint, once all of them have run a batch."""
        queries = list(self._queries)
        if len(self._journal.record.checkpoints) == len(queries):
            return
        try:
            known = [checkpoint_of(query) for query in queries]
        except Exception as error:  # a script may stop its session at any moment
            LOG.debug("The session does not answer: %s", error)
            return
        if all(known):
            self._journal.keeps(tuple(filter(None, known)))
