"""How often Spark triggers a query, and which triggers run a batch."""

from __future__ import annotations

from typing import Any

IN_BATCH = ("Processing new data", "No new data but cleaning up state")
"""Spark's status messages of a query that runs a batch."""


def interval_s(execution: Any) -> float:
    """Return the interval of a query's trigger, seconds; 0 if the trigger does not follow a clock.

    Args:
        execution: Spark's own query, ``StreamExecution``.
    """
    trigger = execution.trigger()
    kind = trigger.getClass().getSimpleName()
    if kind == "RealTimeTrigger":
        return float(trigger.batchDurationMs()) / 1000
    return float(trigger.intervalMs()) / 1000 if kind == "ProcessingTimeTrigger" else 0.0


def runs_batch(query: Any) -> bool:
    """Return whether a query runs a batch. An active trigger may only be looking for rows, which can take long.

    Args:
        query: Spark's own query, or PySpark's view of it in the JVM.
    """
    status = query.status()
    return bool(status.isTriggerActive()) and status.message() in IN_BATCH


def ran_batch(progress: Any) -> bool:
    """Return whether a progress reports a batch. Spark also reports triggers without rows, some of them.

    Such a trigger is numbered like the next batch. Before the first batch of a run, it has no stateful operators.

    Args:
        progress: Spark's own ``StreamingQueryProgress``.
    """
    return "addBatch" in progress.durationMs()


def is_available_now(execution: Any) -> bool:
    """Return whether a query ends once it has read what waited at its start.

    Args:
        execution: Spark's own query, ``StreamExecution``; None if it is not known.
    """
    return execution is not None and execution.trigger().getClass().getSimpleName() == "AvailableNowTrigger$"


def is_real_time(execution: Any) -> bool:
    """Return whether a query is in real-time mode, in which a batch's tasks run until its interval is over.

    Args:
        execution: Spark's own query, ``StreamExecution``; None if it is not known.
    """
    return execution is not None and execution.trigger().getClass().getSimpleName() == "RealTimeTrigger"
