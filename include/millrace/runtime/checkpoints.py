"""Where a running query keeps its state. Changes to the checkpoint of the stopped query use it."""

from __future__ import annotations

from typing import Any

from millrace.run_folder.driver_records import QueryCheckpoint
from millrace.runtime.triggers import ran_batch

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"


def checkpoint_of(query: Any) -> QueryCheckpoint | None:
    """Return the checkpoint of a query; None before its first batch.

    Spark internals, covered by a test: settings that the checkpoint fixes are in the last batch's own session.
    """
    execution = query._jsq.streamingQuery()
    batch = execution.lastExecution()
    progress = execution.lastProgress()
    if batch is None or progress is None:
        return None
    operators = progress.stateOperators()
    # a trigger without rows is numbered like the next batch, which may be the first of this run
    if not (operators or ran_batch(progress) or batch.currentBatchId() < progress.batchId()):
        return None
    return QueryCheckpoint(
        query=str(execution.name() or execution.id().toString()),
        folder=str(execution.resolvedCheckpointRoot()),
        partitions=max((int(operator.numShufflePartitions()) for operator in operators), default=0),
        provider=str(batch.sparkSession().conf().get(STATE_STORE)),
        sink=str(execution.sink().toString()),
    )
