"""Contingencies of flow: more slots if more arrives than the slots can sustain, before the next evaluation.

A line leads to the least level that is planned for a rate, by the same curve and bounds as any other step up. The first
line's rate is what the present slots can sustain: below it nothing is late. The rate of each further line is what the
slots of the line before are sized for. How long more than that has to arrive is a matter of cost. The step costs
``change_s`` on the slots that it adds. Waiting costs no slots. But each second, more rows pile up than the goal has
time for.
"""

from __future__ import annotations

import math
from dataclasses import replace

from millrace.model import row_wait
from millrace.model.arrival import ArrivalBasis
from millrace.model.contingency import Contingency
from millrace.optimizers.conttune import waves
from millrace.optimizers.conttune.demand import Demand
from millrace.optimizers.conttune.operator_context import OperatorContext
from millrace.optimizers.conttune.scaling_step import LIFT

FOR_S = 2.0
"""Rows beyond a rate, in seconds of it, that prove a higher rate: sources commit in pieces."""
ROOM = 1.1
"""Least factor between the rates of two lines: smaller differences are left to the next evaluation."""
OVERDUE = 1.5
"""Factor by which a batch must outlast the plan before slots are added without knowing the rate."""
UNCOUNTED = "the source does not report what arrives while a batch runs"
WHATEVER = "whatever arrives"
UNKNOWN = "the throughput of these slots is not known yet"


def plan_contingencies(context: OperatorContext, slots: int) -> tuple[Contingency, ...]:
    """Return what to do if more arrives than these slots can sustain, by rising slots; empty if it could not have more.

    Without a model, or a source that reports what arrives, the sign is a batch that outlasts what the goal allows.

    Args:
        context: The operator.
        slots: Planned p.
    """
    demand = replace(context.demand, rate=context.rate)
    if not context.options.contingencies or not demand.micro_batch or context.is_starved:
        return ()
    app, most = context.operator.app, context.bounds.max_slots
    if context.ceiling is not None:
        most = min(most, context.ceiling)
    higher = [p for p in context.bounds.levels if slots < p <= most and _gains(context, slots, p)]
    if not higher:
        return ()
    lifted = next((p for p in higher if p >= LIFT * slots), higher[-1])
    counted = context.operator.arrival_basis is ArrivalBasis.COUNTED
    why = UNKNOWN if not context.is_known else WHATEVER if counted else UNCOUNTED
    overdue = Contingency(app, lifted, None, _overdue_s(context, demand, slots), why)
    if not context.is_known or not counted:
        return (overdue,)
    lines: list[Contingency] = []
    effective, ability = context.effective_at(slots)
    above = max(demand.sustainable(ability, effective), context.rate)
    for p in higher:
        planned = _planned(context, demand, p)
        if planned < ROOM * above and p != higher[-1]:
            continue
        lines.append(Contingency(app, p, above, FOR_S))
        above = max(above, planned)
    return (*lines, overdue)


def _overdue_s(context: OperatorContext, demand: Demand, slots: int) -> float:
    """Return how long a batch has to run until rows wait longer than the goal, seconds.

    A batch that reads a backlog takes longer. That is known when the slots are chosen, so it is no sign.
    """
    fixed_s = demand.fixed_at(slots)
    expected_s = planned_s = demand.objective.planned_batch_s(fixed_s, demand.trigger_s)
    if demand.waiting and context.is_known:
        rows = min(demand.waiting + demand.rate * planned_s, demand.batch_rows or math.inf)
        expected_s = max(planned_s, (fixed_s or 0.0) + rows / context.effective_at(slots)[1])
    return max(OVERDUE * expected_s, row_wait.longest_batch_s(demand.objective.max_lag_s, demand.trigger_s))


def _gains(context: OperatorContext, slots: int, higher: int) -> bool:
    tasks = context.operator.tasks
    return waves.effective(higher, tasks) > waves.effective(slots, tasks)


def _planned(context: OperatorContext, demand: Demand, slots: int) -> float:
    """Return the rate that a level is sized for, rows per second: by the curve's lower bound, as for any step up."""
    effective = waves.effective(slots, context.operator.tasks)
    return demand.planned(context.curve.sure_at(effective), effective)
