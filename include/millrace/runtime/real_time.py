"""Spark's real-time mode: the tasks of a batch run until its trigger's interval is over, and pass rows on at once."""

from __future__ import annotations

from typing import Any


def is_real_time(execution: Any) -> bool:
    """Say whether a query is in real-time mode.

    Args:
        execution: Spark's own query, ``StreamExecution``; None if it is not known.
    """
    return execution is not None and execution.trigger().getClass().getSimpleName() == "RealTimeTrigger"
