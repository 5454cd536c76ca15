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

from millrace.runtime.checkpoints import STATE_STORE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REHEARSAL = "millrace-warm-up"
"""Name of the rehearsal's query. No Millrace listener reports it."""
PYTHON_NODES = ("Python", "InPandas", "InArrow")
ROWS_PER_SLOT = 16


class WarmUp:
    """Runs a small streaming query of the same kind, on its own tables and in its own session.

    Args:
        limit_s: Longest time a successor may spend on it, seconds, > 0.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s

    def __call__(self, frame: DataFrame) -> None:
        """Rehearse for the query that writes ``frame``. A failure here does not keep it from starting."""
        rehearsal = threading.Thread(target=_rehearse, args=(frame,), name="millrace-warm-up", daemon=True)
        rehearsal.start()
        rehearsal.join(self._limit_s)


def _rehearse(frame: DataFrame) -> None:
    folder = Path(tempfile.mkdtemp(prefix=f"{REHEARSAL}-"))
    try:
        plan = str(frame._jdf.queryExecution().logical())
        # listeners of the script's session do not see it
        session = frame.sparkSession.newSession()
        session.conf.set(STATE_STORE, frame.sparkSession.conf.get(STATE_STORE))
        _run(_query(session, folder, python=any(node in plan for node in PYTHON_NODES)), folder)
    except Exception as error:
        print(f"warm-up ended early: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _query(session: SparkSession, folder: Path, *, python: bool) -> DataFrame:
    slots = session.sparkContext.defaultParallelism
    rows = session.range(slots * ROWS_PER_SLOT).selectExpr("id", "timestamp_seconds(id) as time")
    rows.repartition(slots).write.format("delta").save(str(folder / "source"))
    stream = session.readStream.format("delta").load(str(folder / "source"))
    if python:  # a lambda travels by value: the workers need none of our modules
        stream = stream.mapInPandas(lambda batches: batches, stream.schema)
    return stream.withWatermark("time", "1 hour").groupBy("time").count()


def _run(stream: DataFrame, folder: Path) -> None:
    writer: Any = stream.writeStream.format("delta").outputMode("append").trigger(availableNow=True)
    writer = writer.queryName(REHEARSAL).option("checkpointLocation", str(folder / "checkpoint"))
    start = type(writer).start  # without the gate's wrapper: the gate waits for this query
    query = getattr(start, "__wrapped__", start)(writer, str(folder / "sink"))
    query.awaitTermination()
