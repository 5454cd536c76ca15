"""A driver's life: session, telemetry, the user's script, and an end that leaves nothing behind."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import runpy
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from millrace.model.failure import reason
from millrace.run_folder.arguments import DriverArguments
from millrace.run_folder.driver_records import DriverState
from millrace.runtime.advance import AdvanceWatch
from millrace.runtime.batch_limits import raise_limits
from millrace.runtime.gate import Closed, Gate
from millrace.runtime.journal import Journal
from millrace.runtime.stop import StopRequest, end_at_boundary
from millrace.runtime.warm_up import WarmUp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from millrace.runtime.telemetry.batches import AppIdentity
    from millrace.runtime.telemetry.driver_telemetry import Telemetry

PARENT_POLL_S = 0.5
APPLICATION_LOST = "the Spark application was stopped from outside the script, perhaps by its cluster"
BOUNDARY_SHARE, SCRIPT_SHARE = 0.6, 0.85
"""Shares of the stop deadline: when a running batch is cancelled, and when a script that does not end is left."""


class Driver:
    """Runs a user's script from its first line to the end of the process.

    Args:
        arguments: The driver's arguments.
    """

    def __init__(self, arguments: DriverArguments) -> None:
        self.arguments = arguments
        self.journal = Journal(arguments)
        self._stop = StopRequest(self._end_queries)
        self._gate = Gate(arguments, self.journal, WarmUp(arguments.ready_deadline_s / 3), self._listen)
        self._finishing = threading.Lock()
        self._telemetry: Telemetry | None = None
        self._application_lost: Callable[[], bool] = lambda: False

    def run(self) -> None:
        """Run the script and exit the process; does not return."""
        self._stop.install()
        _leave_with_parent()
        error: BaseException | None = None
        try:
            from pyspark.sql import SparkSession

            # the script gets this session, as spark-submit described it; its own .master() comes too late
            spark = SparkSession.builder.getOrCreate()
            self._attach(spark)
            self._gate.install()
            raise_limits(self.arguments.raised_limits)
            _become_main(self.arguments)
            runpy.run_path(str(self.arguments.script), run_name="__main__")
            self._await_queries()
        except SystemExit as ending:
            error = _exit_error(ending)
            if error is None and not isinstance(ending, Closed):
                error = self._awaited_error()
        except BaseException as raised:
            error = raised
        self._finish(error)

    def _attach(self, spark: SparkSession) -> None:
        from millrace.runtime.partition_link import PartitionLink
        from millrace.runtime.telemetry.batches import AppIdentity
        from millrace.runtime.telemetry.driver_telemetry import Telemetry
        from millrace.windows import driver_link

        a = self.arguments
        identity = AppIdentity(a.pipeline, a.app, a.generation, a.version, a.slots, a.epoch)
        self._telemetry = Telemetry(spark, identity, a.lake, a.period_s)
        driver_link.connect(PartitionLink(a, self._telemetry.keys))
        host = self._telemetry.host
        AdvanceWatch(spark, self._gate.queries, self.journal, host, a.batch_deadline_s).start()
        self._follow_executors(spark, identity, self._telemetry)
        context: Any = spark.sparkContext
        stop = context.stop
        self._application_lost = context._jsc.sc().isStopped

        def stop_after_last_events() -> None:
            # a script may stop the session itself: commit telemetry first
            self._application_lost = lambda: False
            self._flush()
            stop()

        context.stop = stop_after_last_events

    def _follow_executors(self, spark: SparkSession, identity: AppIdentity, telemetry: Telemetry) -> None:
        """Start the agent that changes executors as Deployments say, if the app has executors."""
        if spark.sparkContext.master.startswith("local"):
            return
        from millrace.lake.deployments import DeploymentFollower, DeploymentStore
        from millrace.lake.store import Lake
        from millrace.runtime.agent.start import start_agent

        a, lake = self.arguments, Lake(self.arguments.lake)
        deployed = DeploymentStore(lake).get(a.pipeline, a.version)
        content = deployed.apps.get(a.app) if deployed else None
        if content is None or content.executor is None:
            return
        read = DeploymentFollower(lake, a.pipeline).read
        queries, journal = self._gate.queries, self.journal
        start_agent(spark, identity, content, read, lake, telemetry, queries, journal.resized, journal.awaits)

    def _listen(self, spark: SparkSession) -> None:
        from millrace.runtime.journal_listener import JournalListener
        from millrace.runtime.query_events import QueryEvents

        QueryEvents(spark, JournalListener(self.journal, self._gate.queries))

    def _await_queries(self) -> None:
        """Wait for every query: a script may end without awaiting any, or after awaiting only one."""
        awaited: list[Any] = []
        while waiting := [query for query in self._gate.queries if query not in awaited]:
            awaited.append(waiting[0])
            waiting[0].awaitTermination()

    def _awaited_error(self) -> BaseException | None:
        try:
            self._await_queries()
        except BaseException as raised:
            return raised
        return None

    def _end_queries(self) -> None:
        """Handle a stop request (in its own thread)."""
        began = time.monotonic()
        self.journal.move(DriverState.STOPPING)
        if not self._gate.shut():
            self._finish(None)
        deadline_s = self.arguments.stop_deadline_s
        end_at_boundary(self._gate.queries, deadline_s * BOUNDARY_SHARE)
        time.sleep(max(0.0, deadline_s * SCRIPT_SHARE - (time.monotonic() - began)))
        self._finish(None)  # the script does not end by itself

    def _finish(self, error: BaseException | None) -> None:
        """Flush, write the last record, free the app and exit. A second caller waits for the end."""
        self._finishing.acquire()
        started_any = self._gate.shut()
        code = 0
        if error is not None and not self._stop.requested:
            if _lost_jvm(error):
                _exit(1)  # killed from outside: the record stays as it is, the reconciler recovers
            traceback.print_exception(error)
            code = 1
        if started_any:
            # the script may have ended with queries still running: by an error, by sys.exit
            end_at_boundary(self._gate.queries, self.arguments.stop_deadline_s * BOUNDARY_SHARE)
            self._flush()
        self._record_end(error, code)
        self._gate.release()
        sys.stdout.flush()
        sys.stderr.flush()
        _exit(code)

    def _record_end(self, error: BaseException | None, code: int) -> None:
        text = None if error is None else reason(error)
        if code:
            with contextlib.suppress(Exception):  # the JVM may be gone too
                text = APPLICATION_LOST if self._application_lost() else text
            self.journal.move(DriverState.FAILED, text)
        else:
            self.journal.move(DriverState.STOPPED if self._stop.requested else DriverState.COMPLETED, text)

    def _flush(self) -> None:
        if self._telemetry is not None:
            telemetry, self._telemetry = self._telemetry, None
            try:
                telemetry.close()
            except Exception:
                traceback.print_exc()


def _become_main(arguments: DriverArguments) -> None:
    """Give the script the ``sys.argv`` and the ``sys.path[0]`` that it would have by itself."""
    script = arguments.script.resolve()
    sys.argv = [str(script), *arguments.args]
    sys.path.insert(0, str(script.parent))


def _exit_error(ending: SystemExit) -> BaseException | None:
    return None if ending.code in (None, 0) else ending


def _lost_jvm(error: BaseException) -> bool:
    return type(error).__name__ == "Py4JNetworkError"


def _exit(code: int) -> NoReturn:
    """End the process and its children from ``multiprocessing``, which Python ends only at a normal exit."""
    try:
        for child in multiprocessing.active_children():
            child.kill()
    finally:
        os._exit(code)


def _leave_with_parent() -> None:
    """End when the JVM, this process's parent, is gone: without it, nothing can be committed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_S)
        _exit(1)

    threading.Thread(target=watch, name="millrace-parent", daemon=True).start()
