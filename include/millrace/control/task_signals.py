"""What the tasks of an app's batches show: its operators, and how its slots spend their time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median_low

from millrace.control.batch_history import History, is_idle_marker
from millrace.control.capacity import heaviest, ran_at
from millrace.model.signals import OperatorSignals
from millrace.model.telemetry import BatchMetrics, OperatorBatch

SAME_TASKS = 0.9
"""Share of the rows whose batches must have the same number of tasks."""
LEAST_BUSY = 0.1
"""Share of the slots' time that tasks must take for the share of garbage collection in it to say anything."""


def operators(app: str, history: History, batches: Sequence[BatchMetrics]) -> tuple[OperatorSignals, ...]:
    """Return what the batches show of each operator; its id is `app/operator`."""
    seen: dict[str, list[tuple[OperatorBatch, int]]] = {}
    for batch in batches:
        for operator in batch.operators:
            seen.setdefault(operator.id, []).append((operator, batch.slots))
    return tuple(_operator(f"{app}/{key}", parts, history.period_s) for key, parts in seen.items())


def usual_tasks(batches: Sequence[BatchMetrics]) -> int | None:
    """Return the tasks of the heaviest operator; None if unknown, if they differ, or if they may follow the slots."""
    rows: Counter[int] = Counter()
    ran_on: dict[int, set[int]] = {}
    for batch in batches:
        if batch.rows_in > 0 and (operator := heaviest(batch)) is not None and operator.tasks is not None:
            rows[operator.tasks] += batch.rows_in
            ran_on.setdefault(operator.tasks, set()).add(batch.slots)
    tasks, most = rows.most_common(1)[0] if rows else (0, 0)
    if not most or most < SAME_TASKS * rows.total():
        return None
    return tasks if len(ran_on[tasks]) > 1 or min(ran_on[tasks]) < tasks else None


def lacks_splits(batches: Sequence[BatchMetrics]) -> bool:
    """Return whether the heaviest operator usually had fewer tasks than slots."""
    pairs = [(o.tasks, b.slots) for b in batches if b.rows_in > 0 and (o := heaviest(b)) is not None]
    fewer = [tasks < slots for tasks, slots in pairs if tasks is not None]
    return bool(fewer) and sum(fewer) > len(fewer) / 2


def slot_busy_ratio(history: History) -> float | None:
    """Return occupied slot time over slots * period; of each batch, the part in the period counts."""
    inside = [(b, share) for b in history.batches if (share := history.share_in_period(b)) > 0]
    if not inside:
        return 0.0 if is_idle_marker(history.newest) else None
    timed = [(b, share) for b, share in inside if any(o.useful_s is not None for o in b.operators)]
    if not timed:
        return None
    busy_s = sum(share * _tasks_s(b) / b.slots for b, share in timed)
    return min(1.0, max(0.0, busy_s / history.period_s))


def gc_ratio(history: History) -> float | None:
    """Return the share of the tasks' time in the period that garbage collection took.

    None if no batch reports both, or the slots were almost idle: then a single collection is most of the little time.
    """
    timed = [(b.gc_s, s) for b in history.in_period(history.batches) if b.gc_s is not None and (s := _tasks_s(b))]
    tasks_s = sum(s for _, s in timed)
    if not timed or tasks_s < LEAST_BUSY * history.newest.slots * history.period_s:
        return None
    return min(1.0, sum(gc_s for gc_s, _ in timed) / tasks_s)


def _tasks_s(batch: BatchMetrics) -> float:
    """Return the time of a batch's tasks, seconds in all; 0 if it is unknown."""
    return sum(operator.useful_s or 0.0 for operator in batch.operators)


def _operator(name: str, parts: Sequence[tuple[OperatorBatch, int]], period_s: float) -> OperatorSignals:
    ran = [p for o, slots in parts if (p := ran_at(o, slots)) is not None]
    counted = [o for o, _ in parts if o.rows_in is not None and o.rows_in >= 0]
    timed = [o for o in counted if o.rows_in and o.useful_s is not None and o.useful_s > 0]
    rows, useful_s = sum(o.rows_in or 0 for o in timed), sum(o.useful_s or 0.0 for o in timed)
    p = median_low(ran) if ran else None
    return OperatorSignals(
        operator=name,
        name=parts[-1][0].name,
        parallelism=p,
        rows_in_per_s=sum(o.rows_in or 0 for o in counted) / period_s if counted else None,
        useful_s_per_row=useful_s / rows if rows else None,
        throughput=p * rows / useful_s if rows and p else None,
    )
