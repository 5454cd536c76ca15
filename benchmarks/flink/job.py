"""Represent a period's signals of an app as the vertices of a Flink job."""

from __future__ import annotations

import math
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from millrace.model.errors import MillraceError
from millrace.model.signals import AppSignals, OperatorSignals


def vertices(app: AppSignals, parallelism: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the harness's input for each operator.

    Args:
        app: The measurements of a period.
        parallelism: The current p by operator. An operator that is not in it (a source) is shown, because Flink derives
            its targets from the source's rate and backlog, but is not scaled.

    Raises:
        MillraceError: If the edges contain a cycle, on which Flink would never terminate.
    """
    measured = {o.operator for o in app.operators}
    inputs: dict[str, list[str]] = {name: [] for name in measured}
    for edge in app.edges:
        if edge.producer in measured and edge.consumer in measured:
            inputs[edge.consumer].append(edge.producer)
    try:
        TopologicalSorter(inputs).prepare()
    except CycleError as error:
        raise MillraceError("flink.edges", error.args[1], "no cycle", "Leave this job out for this method.") from error
    return [_vertex(o, inputs[o.operator], parallelism.get(o.operator)) for o in app.operators]


def _vertex(operator: OperatorSignals, inputs: list[str], parallelism: int | None) -> dict[str, Any]:
    rows_in = operator.rows_in_per_s
    if rows_in is None and not inputs:
        # a source reads as many rows as it passes on
        rows_in = operator.rows_out_per_s
    return {
        "id": operator.operator,
        "inputs": inputs,
        "sized": parallelism is not None,
        "parallelism": parallelism or operator.parallelism or 1,
        "busy_ratio": _known(operator.busy_ratio),
        "backpressured_ratio": _known(operator.backpressured_ratio),
        "rows_in_per_s": _known(rows_in),
        "rows_out_per_s": _known(operator.rows_out_per_s),
        "backlog_rows": _known(operator.backlog_rows),
    }


def _known(value: float | None) -> float | None:
    """Return a finite number or None: JSON has no NaN, and Flink treats both as not measured."""
    return value if value is not None and math.isfinite(value) else None
