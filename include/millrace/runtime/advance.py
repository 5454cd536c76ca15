"""Records from inside a driver whether its work advances, so that a slow batch is not taken for a hung one.

Work advances while tasks end or read rows, while the driver's processes use the CPU (the only sign of loading state),
and while no trigger is active: a query that waits for its next trigger, or for rows, has nothing to do. A batch that
waits for something outside Spark shows no sign of work, so it gets a long deadline of its own. A driver that hangs
altogether records nothing, and that silence is the sign.

Interval triggers follow the wall clock. If the clock is set back, the next trigger waits until the clock has caught
up. So a long overdue trigger does not count as waiting.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from millrace.runtime.journal import Journal
from millrace.runtime.telemetry.host import HostCpu
from millrace.runtime.triggers import interval_s, is_real_time

LOG = logging.getLogger(__name__)
POLL_S = 2.0
BUSY_CORES = 0.1
"""CPU seconds per second from which a driver counts as busy. A driver that waits forever needs about 0.02."""

OVERDUE_S = 60.0
"""Seconds by which a trigger may be late, beyond twice its interval and Spark's interval of idle events."""

Sign = tuple[object, ...]
T = TypeVar("T")


class AdvanceWatch:
    """Records in the journal, every few seconds, that the driver's work advances.

    Args:
        spark: The driver's session.
        queries: Live list of the script's queries.
        journal: The driver's record.
        host: CPU time of the driver's processes.
        batch_deadline_s: Longest time in which a running batch may show no progress, seconds.
    """

    def __init__(
        self, spark: Any, queries: Sequence[Any], journal: Journal, host: HostCpu, batch_deadline_s: float
    ) -> None:
        self._context, self._queries = spark.sparkContext._jsc.sc(), queries
        self._journal, self._host = journal, host
        self._batch_deadline_s = batch_deadline_s
        self._last: Sign = ()
        self._busy_s, self._polled_s = host.own_s, time.monotonic()
        self._moved_s = self._polled_s

    def start(self) -> None:
        """Start watching in a background thread."""
        threading.Thread(target=self._run, name="millrace-advance", daemon=True).start()

    def advanced(self) -> bool:
        """Return whether work advanced since the last call, or a running batch is still within its deadline."""
        unknown: list[bool] = []
        triggers = self._ask(lambda: [_triggers(query) for query in list(self._queries)], unknown)
        waits = bool(triggers) and not any(triggers) and not self._overdue()
        if any([self._busy(), self._moved(), waits]):
            self._moved_s = time.monotonic()
            return True
        in_batch = any(triggers) or bool(self._last)
        return in_batch and time.monotonic() - self._moved_s < self._batch_deadline_s

    def _run(self) -> None:
        while True:
            time.sleep(POLL_S)
            if self.advanced():
                self._journal.advanced()

    def _busy(self) -> bool:
        self._host.sample(POLL_S / 2)
        busy_s, polled_s = self._host.own_s, time.monotonic()
        cores = (busy_s - self._busy_s) / max(polled_s - self._polled_s, POLL_S / 2)
        self._busy_s, self._polled_s = busy_s, polled_s
        return cores >= BUSY_CORES

    def _moved(self) -> bool:
        before = self._last
        self._last = self._ask(lambda: task_sign(self._context), before)
        return self._last != before

    def _overdue(self) -> bool:
        """Return whether a trigger is long overdue."""
        if self._journal.triggered_s is None:
            return False
        longest_s = self._ask(lambda: max(map(_interval_s, list(self._queries)), default=0.0), 0.0)
        silent_s = self._ask(lambda: max(map(_idle_event_interval_s, list(self._queries)), default=0.0), 0.0)
        late_s = time.monotonic() - self._journal.triggered_s
        return longest_s > 0 and late_s > 2 * longest_s + silent_s + OVERDUE_S

    def _ask(self, question: Callable[[], T], otherwise: T) -> T:
        try:
            return question()
        except Exception as error:  # a script may stop its session at any moment
            LOG.debug("The session does not answer: %s", error)
            return otherwise


def task_sign(context: Any) -> Sign:
    """Return a value that changes whenever a task ends, reads rows or writes rows.

    Running tasks report their reads with the executor's heartbeat, every 10 s by default.

    Args:
        context: The JVM's SparkContext.
    """
    stages = context.statusStore().activeStages()
    return tuple(_stage_sign(stages.apply(i)) for i in range(stages.size()))


def _stage_sign(stage: Any) -> Sign:
    return (
        stage.stageId(),
        stage.attemptId(),
        stage.numCompleteTasks(),
        stage.numFailedTasks(),
        stage.inputRecords(),
        stage.shuffleReadRecords(),
        stage.shuffleWriteRecords(),
        stage.outputRecords(),
        stage.memoryBytesSpilled(),
    )


def _triggers(query: Any) -> bool:
    """Return whether a query runs a batch. Always False in real-time mode, whose tasks may wait for rows."""
    active = query._jsq.isActive() and query._jsq.status().isTriggerActive()
    return bool(active) and not is_real_time(query._jsq.streamingQuery())


def _interval_s(query: Any) -> float:
    return interval_s(query._jsq.streamingQuery()) if query._jsq.isActive() else 0.0


def _idle_event_interval_s(query: Any) -> float:
    """Return how long Spark waits between two idle events, seconds, as set in the query's own session."""
    session = query._jsq.streamingQuery().sparkSession()
    return float(session.sessionState().conf().streamingNoDataProgressEventInterval()) / 1000
