"""How a driver stops: a sticky request, never handled inside a signal handler, and queries that end after a batch.

After a batch that moves the watermark, Spark runs a batch without rows, which emits the results that are now final.
Spark forgets this across a restart. The results would wait for the next rows, which a silent stream never brings. So
queries end at the end of a batch, and the next driver has nothing to repeat.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pyspark

from millrace.model.failure import reason
from millrace.runtime.spark_versions import is_planned, streaming_runtime, trigger_frame
from millrace.runtime.telemetry.positions import Positions
from millrace.runtime.telemetry.query_log import newest_batch, sources_after
from millrace.runtime.telemetry.sources.kinds import spark_sources

LOG = logging.getLogger(__name__)


class StopRequest:
    """Turns SIGTERM into an event and calls ``act`` in its own thread.

    The main thread mostly waits for a response from the JVM on its own connection, which a signal handler must not
    use, and the script may replace the handler. So the interpreter itself writes the signal's number to a pipe.

    Args:
        act: Called once after a stop request.
    """

    def __init__(self, act: Callable[[], None]) -> None:
        self._act, self._requested = act, threading.Event()

    @property
    def requested(self) -> bool:
        """Whether the driver was asked to stop; never becomes false again."""
        return self._requested.is_set()

    def install(self) -> None:
        """Start listening; main thread only."""
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(read, True)

        def pass_on(number: int, _frame: FrameType | None) -> None:
            os.write(write, bytes([number]))

        def leave_to_parent() -> None:
            signal.set_wakeup_fd(-1)
            if signal.getsignal(signal.SIGTERM) is pass_on:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

        signal.signal(signal.SIGTERM, pass_on)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        # a forked child has the same pipe: a signal to it would stop the driver
        os.register_at_fork(after_in_child=leave_to_parent)
        threading.Thread(target=self._listen, args=(read,), name="millrace-stop", daemon=True).start()

    def _listen(self, pipe: int) -> None:
        while os.read(pipe, 1) != bytes([signal.SIGTERM]):
            pass
        self._requested.set()
        self._act()


NOTHING_TO_DO = "Waiting for data to arrive"
"""Spark's status of a query after a trigger that found neither rows nor anything to emit."""
POLL_S, MOMENT_POLL_S = 0.02, 0.005
IN_BATCH = "MicroBatchExecution.runBatch("
BEGINNING = "MicroBatchExecution.constructNextBatch("
EXECUTING = "SQLExecution$.withNewExecutionId"
PAUSING = "java.lang.Thread.sleep("


def end_at_boundary(queries: Sequence[Any], deadline_s: float) -> bool:
    """End queries after their running batch and return True, or cancel it at the deadline and return False.

    Spark's own ``stop()`` cancels the running batch. A query whose state is TERMINATED ends by itself before its next
    trigger. A query that sleeps until its next trigger runs nothing that ``stop()`` could cancel. If the state is set
    while the query plans a batch, that batch stays undone, with offsets but no commit. The next driver repeats it, but
    Spark refuses to rescale the state. So the state is set while the query executes a batch or does nothing. (Spark
    internals: pinned to its version, covered by tests.)

    Args:
        queries: Streaming queries of this process.
        deadline_s: Time for all of them together, seconds, > 0.
    """
    give_up = time.monotonic() + deadline_s
    queries = [query for query in queries if running(query)]
    try:
        _await_emission(queries, give_up)
    except Exception as error:  # only results are late: the driver has to stop anyway
        LOG.warning("The driver stops without waiting for the last results; the next rows emit them: %s", reason(error))
    _tell(queries, give_up)
    clean = True
    while active := [query for query in queries if running(query)]:
        late = time.monotonic() > give_up
        for query in active:
            if late or trigger_frame(pyspark.__version__) not in _calls(query):
                clean = clean and not late
                query.stop()
        time.sleep(POLL_S)
    return clean


def _tell(queries: Sequence[Any], give_up: float) -> None:
    """Make each query end before its next trigger, at a moment that leaves no batch undone."""
    untold = list(queries)
    while untold:
        late = time.monotonic() > give_up
        for query in list(untold):
            if late or _may_be_told(query):
                _terminate(query)
                untold.remove(query)
        time.sleep(MOMENT_POLL_S)


def _may_be_told(query: Any) -> bool:
    """Return whether a query executes a batch, or runs none and is not about to."""
    calls = _calls(query)
    if trigger_frame(pyspark.__version__) not in calls:
        return True
    if IN_BATCH not in calls:
        return PAUSING in calls and BEGINNING not in calls
    # sources may execute plans of their own before the batch is planned
    return EXECUTING in calls and is_planned(query._jsq.streamingQuery(), pyspark.__version__)


def _calls(query: Any) -> str:
    """Return the stack of a query's thread, innermost call first, one call per line."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    stack = jvm.java.lang.Throwable()
    stack.setStackTrace(query._jsq.streamingQuery().queryExecutionThread().getStackTrace())
    return str(jvm.org.apache.commons.lang3.exception.ExceptionUtils.getStackTrace(stack))


def _await_emission(queries: Sequence[Any], give_up: float) -> None:
    """Wait for the batches without rows that emit the results of the last rows."""
    last = {id(query): _batch(query) for query in queries if _is_last(query)}
    while last and time.monotonic() < give_up:
        for query in queries:
            if id(query) in last and (not running(query) or _moved_on(query, last[id(query)])):
                del last[id(query)]
        time.sleep(POLL_S)


def _is_last(query: Any) -> bool:
    """Return whether a query has a watermark, and no rows wait after the batch that it runs or ran last."""
    progress = query.lastProgress
    if progress is None or "watermark" not in progress["eventTime"]:
        return False
    execution = query._jsq.streamingQuery()
    ended = zip(sources_after(execution, _batch(query)), json.loads(progress.json)["sources"], strict=True)
    sources = [{**source, "latestOffset": reported["latestOffset"]} for source, reported in ended]
    return Positions.following(spark_sources(execution)).of(sources).backlog == 0


def _moved_on(query: Any, last: int) -> bool:
    """Return whether a later batch has ended or reads rows, or none is due.

    A batch that emits may finish: if the query is stopped while the batch starts, Spark leaves it undone.
    """
    if query.lastProgress["batchId"] > last:
        return True
    status = query.status
    return bool(status["message"] == NOTHING_TO_DO or (_batch(query) > last and status["isDataAvailable"]))


def _batch(query: Any) -> int:
    return newest_batch(query._jsq.streamingQuery())


def _terminate(query: Any) -> None:
    from pyspark import SparkContext

    state = getattr(streaming_runtime(SparkContext._jvm, pyspark.__version__), "TERMINATED$")
    query._jsq.streamingQuery().state().set(getattr(state, "MODULE$"))


def running(query: Any) -> bool:
    """Return whether a query still runs a batch or may start one."""
    # its state already says TERMINATED: only its thread shows when the batch has ended
    return bool(query._jsq.streamingQuery().queryExecutionThread().isAlive())
