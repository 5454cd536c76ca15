"""Query events of a whole Spark application, for every session and whoever started the query.

``spark.streams.addListener`` only reports the queries of one session, and ``spark.newSession()`` creates sessions
unseen. All sessions post their events to the application's listener bus, which Spark's history server also reads.
So Millrace registers what the history server uses: a ``StreamingQueryListenerBus`` that belongs to no session and so
filters nothing. It stays in the JVM, and only query events reach Python. It has its own queue, so a slow lake delays
none of the script's listeners. (Spark internals: pinned to its version, covered by tests.)
"""

from __future__ import annotations

import logging
from typing import Any

from py4j.java_gateway import java_import  # type: ignore[import-untyped]
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from millrace.runtime.spark_versions import streaming_runtime
from millrace.runtime.warm_up import REHEARSAL

LOG = logging.getLogger(__name__)
QUEUE = "millrace"


class QueryEvents:
    """A listener's registration for all query events of an application.

    Args:
        spark: Any session of the application.
        listener: Receives the events of the script's queries, in a Spark thread.
    """

    def __init__(self, spark: SparkSession, listener: StreamingQueryListener) -> None:
        context: Any = spark.sparkContext
        ensure_callback_server_started(context._gateway)
        jvm = context._jvm
        java_import(jvm, "org.apache.spark.sql.streaming.*")  # as PySpark's own addListener does
        self._bus = context._jsc.sc().listenerBus()
        runtime = streaming_runtime(jvm, context.version)
        self._queries = runtime.StreamingQueryListenerBus(jvm.scala.Option.empty())
        self._queries.addListener(_OfScript(listener)._jlistener)
        self._bus.addToQueue(self._queries, QUEUE)

    def close(self) -> None:
        """End the registration; safe after the application has ended."""
        try:
            self._bus.removeListener(self._queries)
        except Exception as error:
            LOG.debug("The application is gone: %s", error)


class _OfScript(StreamingQueryListener):  # type: ignore[misc]
    """Passes on the events of all queries except Millrace's own rehearsal."""

    def __init__(self, listener: StreamingQueryListener) -> None:
        self._listener, self._rehearsals = listener, set[str]()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        if event.name == REHEARSAL:
            self._rehearsals.add(str(event.runId))
        else:
            self._listener.onQueryStarted(event)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        if event.progress.name != REHEARSAL:
            self._listener.onQueryProgress(event)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        if str(event.runId) not in self._rehearsals:
            self._listener.onQueryIdle(event)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        if str(event.runId) in self._rehearsals:
            self._rehearsals.remove(str(event.runId))
        else:
            self._listener.onQueryTerminated(event)


def running_query(spark: SparkSession, query_id: str) -> Any | None:
    """Return the JVM's ``StreamExecution`` of a running query of any session; None if it is not running.

    Args:
        spark: Any session of the application; sessions share running queries.
        query_id: The query's id.
    """
    session: Any = spark._jsparkSession
    active = session.sharedState().activeStreamingQueries()
    return active.get(spark.sparkContext._jvm.java.util.UUID.fromString(query_id))
