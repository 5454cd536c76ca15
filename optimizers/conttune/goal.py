"""Report a latency goal that no allowed size meets: the best possible size, and what would help.

Larger batches may help too: :mod:`millrace.optimizers.batch_limits` says which.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from millrace.model import row_wait
from millrace.optimizers.conttune import waves
from millrace.optimizers.conttune.demand import Demand
from millrace.optimizers.conttune.messages import count, format_number
from millrace.optimizers.conttune.operator_context import OperatorContext
from millrace.optimizers.conttune.surrogate import draw_curve

MET = 1.05
"""Waits up to this factor of the goal meet it: fitted costs are not more exact."""
BEYOND = 4
"""Search for more slots up to this factor of the allowed maximum."""


@dataclass(frozen=True)
class UnmetGoal:
    """What is possible if no allowed size meets the goal.

    Attributes:
        slots: Slots with the shortest wait.
        wait_s: Longest wait of a row at these slots, seconds; infinite if waits keep growing.
        fixed_s: Part of the wait that batches take even without rows.
        sustains: Throughput of these slots, rows per second.
        helps: Keys of the spec that would meet the goal, each with its value.
    """

    slots: int
    wait_s: float
    fixed_s: float
    sustains: float
    helps: tuple[str, ...]


def unmet_goal(context: OperatorContext) -> UnmetGoal | None:
    """Return what is possible if no allowed size meets the goal; None if one does, or if nothing is known."""
    demand = replace(context.demand, rate=context.rate)
    goal_s = demand.objective.max_lag_s
    if not demand.micro_batch or not context.is_known or context.rate <= 0:
        return None
    if demand.longest_wait_s(context.ability_now, context.effective) <= MET * goal_s:
        return None  # the present size meets it
    wait_s, _, slots = min(_prospects(context, demand, p) for p in context.bounds.levels)
    if wait_s <= MET * goal_s:
        return None
    effective, ability = context.effective_at(slots)
    fixed_s = row_wait.longest_wait_s(demand.fixed_at(effective) or 0.0, demand.trigger_s)
    sustains = demand.throughput(ability, effective)
    return UnmetGoal(slots, wait_s, fixed_s, sustains, tuple(_helps(context, demand, wait_s)))


def sentence(unmet: UnmetGoal, goal_s: float) -> str:
    """Say what is possible and what would help."""
    slots = count(unmet.slots, "slot")
    if math.isinf(unmet.wait_s):
        text = f"No allowed size keeps up: even {slots} can sustain only {format_number(unmet.sustains)} rows/s."
    else:
        text = (
            f"No allowed size meets the goal of {format_number(goal_s)} s: with {slots}, rows wait up to "
            f"{format_number(unmet.wait_s)} s, {format_number(unmet.fixed_s)} s of it for the fixed cost of batches."
        )
    return f"{text} {_either(unmet.helps)}" if unmet.helps else text


def _either(helps: Sequence[str]) -> str:
    *former, last = helps
    return f"This would help: {', or '.join((*former, last))}."


def _prospects(context: OperatorContext, demand: Demand, slots: int) -> tuple[float, float, int]:
    """Return longest wait, negated throughput and slots; the smallest tuple is the best."""
    effective, ability = context.effective_at(slots)
    return demand.longest_wait_s(ability, effective), -demand.throughput(ability, effective), slots


def _helps(context: OperatorContext, demand: Demand, wait_s: float) -> Sequence[str]:
    found = []
    if (slots := _more_slots(context, demand)) is not None:
        found.append(f"slots.max: {slots} (estimated)")
    if math.isfinite(wait_s):
        found.append(f"objective.max_lag_s: {math.ceil(wait_s)}")
    return found


def _more_slots(context: OperatorContext, demand: Demand) -> int | None:
    """Return the fewest slots above the allowed maximum that would be planned for the rate; None if none would."""
    most, step = context.bounds.max_slots, context.bounds.step
    if context.is_starved or (context.ceiling is not None and context.ceiling <= most):
        return None
    highest = BEYOND * most
    curve = draw_curve(context.surrogate, context.levels, highest, 0.0, 0.0)
    for slots in range(most + step, highest + 1, step):
        effective = waves.effective(slots, context.operator.tasks)
        if demand.is_attainable(effective) and demand.rate <= demand.planned(curve.at(effective), effective):
            return slots
    return None
