"""Prepares new executors for a query before they get any of its state.

An executor that has just started loads and compiles its classes and starts its Python workers with its first tasks. On
a busy host that makes the first batch after a scale-up several times as long as a warm one. A small job whose tasks
prefer the new executors does this work while the running batch continues without them.

Tasks of the running batch that wait for a slot still start on a new executor at once: Spark offers no way to hold them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from millrace.model.failure import reason
from millrace.runtime.agent.allocation import Executor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger(__name__)
LIMIT_S = 8.0
"""Longest time that a new executor is kept from state partitions. A cold executor is better than none."""
JOB_LIMIT_S = 30.0
"""Longest time that the job may use slots which batches need."""
JOB = "Millrace prepares new executors"
ARROW_NODES = ("InPandas", "InArrow", "ArrowEvalPython")
PYTHON_NODES = (*ARROW_NODES, "Python", "PySpark", "ForeachBatch")
"""Parts of the names of a plan's nodes that need pyarrow in Python workers, and that use or may use such workers."""

Prepare = Callable[[Sequence[Executor]], None]


class ExecutorWarmUp:
    """Prepares executors that register while queries run.

    Args:
        prepare: Runs the job on executors and returns when it has ended.
        limit_s: Longest time that an executor counts as cold, seconds.
    """

    def __init__(self, prepare: Prepare, limit_s: float = LIMIT_S) -> None:
        self._prepare, self._limit_s = prepare, limit_s
        self._known: set[str] = set()
        self._cold_until_s: dict[str, float] = {}

    def ready(self, executors: Sequence[Executor], running: bool) -> set[str]:
        """Return the ids of the executors that may have state partitions, and start to prepare new ones.

        Args:
            executors: All registered executors.
            running: Whether a query has run a batch. Before that, nothing is known of what it needs.
        """
        now, ids = time.monotonic(), {executor.id for executor in executors}
        new = [executor for executor in executors if executor.id not in self._known]
        self._known = ids
        if running and new:
            self._cold_until_s |= {executor.id: now + self._limit_s for executor in new}
            threading.Thread(target=self._work, args=(new,), name="millrace-executor-warm-up", daemon=True).start()
        cold = {id for id, until_s in list(self._cold_until_s.items()) if now < until_s}
        return ids - cold

    def _work(self, executors: Sequence[Executor]) -> None:
        try:
            self._prepare(executors)
        except Exception as error:  # an executor that left, a session that ends: the query must not notice
            LOG.warning("Executors start cold: %s", reason(error))
        for executor in executors:
            self._cold_until_s.pop(executor.id, None)


def job_on_executors(spark: SparkSession, tasks: int, queries: Sequence[Any]) -> Prepare:
    """Return a function that runs the job.

    Args:
        spark: Any session of the application.
        tasks: Tasks that an executor runs at the same time, >= 1.
        queries: Live list of the script's queries. Python workers start if one of them uses Python.
    """

    @cache
    def session() -> Any:
        # none of PySpark's: a new one there would become the session of the script's RDD.toDF
        return spark._jsparkSession.newSession()

    def prepare(executors: Sequence[Executor]) -> None:
        plans = "".join(_plan(query) for query in list(queries) if query.isActive)
        run_on(spark, session(), executors, tasks, python=uses_python(plans), arrow=uses_arrow(plans))

    return prepare


def run_on(
    spark: SparkSession, session: Any, executors: Sequence[Executor], tasks: int, *, python: bool, arrow: bool
) -> None:
    """Run tasks that use generated code and, if asked, Python workers, on certain executors.

    Args:
        spark: Any session of the application.
        session: The JVM's session in which they run.
        executors: The tasks run there if slots are free within ``spark.locality.wait.process``.
        tasks: Number of tasks per executor.
        python: Whether the tasks use Python workers.
        arrow: Whether these load pyarrow and, if it is installed there, pandas.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql.functions import udf
    from pyspark.sql.types import IntegerType, StructField, StructType

    context: Any = spark.sparkContext
    jvm = context._jvm
    values = context._gateway.new_array(jvm.Object, 1)
    values[0] = 1
    row = jvm.org.apache.spark.sql.RowFactory.create(values)
    places = [f"executor_{executor.host}_{executor.id}" for executor in executors for _ in range(tasks)]
    pinned = [jvm.scala.Tuple2(row, jvm.PythonUtils.toSeq([place])) for place in places]
    rows = context._jsc.sc().makeRDD(jvm.PythonUtils.toSeq(pinned), jvm.scala.reflect.ClassTag.Any())
    schema = StructType([StructField("id", IntegerType())])
    frame = DataFrame(session.createDataFrame(rows, session.parseDataType(schema.json())), spark)
    # functions of a function travel by value: the workers need none of our modules
    if arrow:
        frame = frame.mapInArrow(_with_pandas(), schema)
    elif python:
        frame = frame.select(udf(lambda id: id, IntegerType(), useArrow=False)("id").alias("id"))
    with _limited(context):
        frame.sortWithinPartitions("id").write.format("noop").mode("overwrite").save()


@contextmanager
def _limited(context: Any) -> Iterator[None]:
    """Name the jobs of this thread, and cancel them after the limit: they must not delay later batches."""
    tag = f"millrace-warm-up-{uuid4().hex}"
    timer = threading.Timer(JOB_LIMIT_S, context.cancelJobsWithTag, (tag,))
    timer.daemon = True
    context.addJobTag(tag)
    context.setLocalProperty("spark.job.description", JOB)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        context.removeJobTag(tag)
        context.setLocalProperty("spark.job.description", None)


def _with_pandas() -> Callable[[Iterator[Any]], Iterator[Any]]:
    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        with suppress(ImportError):
            import pandas  # noqa: F401 - loaded so that the query's tasks find it in the worker
        yield from batches

    return pass_on


def uses_python(plan: str) -> bool:
    """Return whether a plan has nodes that use Python workers, or a ``foreachBatch`` that may have some."""
    return any(node in plan for node in PYTHON_NODES)


def uses_arrow(plan: str) -> bool:
    """Return whether a plan has nodes that need pyarrow in Python workers."""
    return any(node in plan for node in ARROW_NODES)


def _plan(query: Any) -> str:
    """Return the sink of a query and the plan of its newest batch."""
    execution = query._jsq.streamingQuery()
    last = execution.lastExecution()
    # a batch is planned in its own thread, where its jobs belong to the query
    planned = last is not None and last.tracker().phases().contains("planning")
    return f"{execution.sink()} {last.executedPlan() if planned else ''} "
