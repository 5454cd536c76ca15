"""What a successor does while it waits: a rehearsal, so that the engine is warm for its first real batch.

Most of a first batch is spent loading and compiling the engine's own code, starting Python workers, and compiling the
query's plan. None of this needs the checkpoint, so all of it can happen while the predecessor works.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millrace.model.master import LOCAL, is_loopback
from millrace.runtime.checkpoints import STATE_STORE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REHEARSAL = "millrace-warm-up"
"""Name of the rehearsal's query. No Millrace listener reports it."""
PYTHON_NODES = ("Python", "InPandas", "InArrow")
ROWS_PER_SLOT = 16


class WarmUp:
    """Runs a small streaming query of the same kind, on its own tables and in its own session.

    Its tables are files of this machine, so it runs only if all executors are here.

    Args:
        limit_s: Longest time a successor may spend on it, seconds, > 0.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s

    def __call__(self, frame: DataFrame) -> None:
        """Rehearse for the query that writes ``frame``. A failure here does not keep it from starting."""
        if not is_here(frame.sparkSession.sparkContext.master):
            return
        rehearsal = threading.Thread(target=_rehearse, args=(frame,), name="millrace-warm-up", daemon=True)
        rehearsal.start()
        rehearsal.join(self._limit_s)


def is_here(master: str) -> bool:
    """Return whether the executors of a Spark master run on this machine."""
    return master.startswith(LOCAL) or is_loopback(master)


def _rehearse(frame: DataFrame) -> None:
    folder = Path(tempfile.mkdtemp(prefix=f"{REHEARSAL}-"))
    try:
        plan = str(frame._jdf.queryExecution().logical())
        # listeners of the script's session do not see it
        session = frame.sparkSession.newSession()
        session.conf.set(STATE_STORE, frame.sparkSession.conf.get(STATE_STORE))
        place = f"file:{folder}"  # without a scheme, it would be in the cluster's default file system
        _run(_query(session, place, python=any(node in plan for node in PYTHON_NODES)), place)
    except Exception as error:
        print(f"warm-up ended early: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _query(session: SparkSession, place: str, *, python: bool) -> DataFrame:
    slots = session.sparkContext.defaultParallelism
    rows = session.range(slots * ROWS_PER_SLOT).selectExpr("id", "timestamp_seconds(id) as time")
    rows.repartition(slots).write.format("delta").save(f"{place}/source")
    stream = session.readStream.format("delta").load(f"{place}/source")
    if python:  # a lambda travels by value: the workers need none of our modules
        stream = stream.mapInPandas(lambda batches: batches, stream.schema)
    return stream.withWatermark("time", "1 hour").groupBy("time").count()


def _run(stream: DataFrame, place: str) -> None:
    writer: Any = stream.writeStream.format("delta").outputMode("append").trigger(availableNow=True)
    writer = writer.queryName(REHEARSAL).option("checkpointLocation", f"{place}/checkpoint")
    start = type(writer).start  # without the gate's wrapper: the gate waits for this query
    query = getattr(start, "__wrapped__", start)(writer, f"{place}/sink")
    query.awaitTermination()
