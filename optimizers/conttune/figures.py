"""Figures that no measurement can be: a tuner refuses them instead of computing with them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from millrace.model.signals import AppSignals

LEAST_ABILITY, LARGEST = 1e-9, 1e15
"""Range of valid figures, rows per second: no computation within it overflows or divides by zero."""

Limits = Mapping[str, tuple[float, float, str]]
"""Lowest and highest possible figure by name, and the range as text."""

RATE = 0, LARGEST, f"0 to {LARGEST:g}"
RATIO = 0, 1 + 1e-9, "0 to 1"
ABILITY = LEAST_ABILITY, LARGEST, f"{LEAST_ABILITY:g} to {LARGEST:g}"
LEVEL = 1, math.inf, ">= 1"

ARRIVAL: Limits = dict.fromkeys(("arrival_rows_per_s", "arrival_recent_rows_per_s", "backlog_rows"), RATE)
OF_APP: Limits = {
    **ARRIVAL,
    **dict.fromkeys(("processed_rows_per_s", "restart_lag_rows", "trigger_s", "change_s", "first_batch_s"), RATE),
    **dict.fromkeys(("backpressured_ratio", "slot_busy_ratio"), RATIO),
    "parallelism": LEVEL,
}
OF_CAPACITY: Limits = {"fixed_s": RATE, "rows_per_s_error": RATE, "rows_per_s": ABILITY, "parallelism": LEVEL}
OF_OPERATOR: Limits = {
    **ARRIVAL,
    **dict.fromkeys(("rows_in_per_s", "rows_out_per_s", "output_throughput", "throughput_error"), RATE),
    **dict.fromkeys(("backpressured_ratio", "busy_ratio"), RATIO),
    "parallelism": LEVEL,
    "throughput": ABILITY,
}
OF_EDGE: Limits = {"rows_per_s": RATE}


def is_possible(ability: float) -> bool:
    """Return whether a processing ability, rows per second, is a possible measurement."""
    return LEAST_ABILITY <= ability <= LARGEST


def impossible_figure(app: AppSignals, *, with_operators: bool) -> Mapping[str, str] | None:
    """Return the name, value and allowed range of an impossible figure; None if all are possible."""
    measured: list[tuple[str, object, Limits]] = [("", app, OF_APP)]
    for name, capacity in (("capacity.", app.capacity), ("first_batches.", app.first_batches)):
        if capacity is not None:
            measured.append((name, capacity, OF_CAPACITY))
    if with_operators:
        measured += [(f"{o.operator}.", o, OF_OPERATOR) for o in app.operators]
        measured += [(f"{e.producer}>{e.consumer}.", e, OF_EDGE) for e in app.edges]
    for prefix, figures, limits in measured:
        for name, (low, high, allowed) in limits.items():
            value = getattr(figures, name)
            if value is not None and not low <= value <= high:
                return {"name": f"{prefix}{name}", "value": f"{value:g}", "allowed": allowed}
    return None
