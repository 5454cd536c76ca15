"""The wanted sizes of operators, and the Proposal made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from millrace.model.arrival import arrival_phrase
from millrace.model.contingency import Contingency
from millrace.model.decision import Proposal
from millrace.model.objective import Bounds
from millrace.optimizers.conttune.job_graph import Job, Operator
from millrace.optimizers.conttune.messages import Reason, count, format_number, message

Columns = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Sizing:
    """The wanted size of one operator, as a Proposal has it.

    Attributes:
        operator: An operator that can be sized.
        target: Wanted p; the present p if nothing changes.
        reason: Reason code in snake case.
        sentence: The reason as a sentence.
        predicted: Effect of the target by name with unit; empty without a model.
        curve: The model's curve, columns of equal length; empty without a model.
        training: Points that the model was fitted to.
        contingencies: Plan for more arrival before the next evaluation.
        need: Rows per second that it has to process; None if unknown.
        curve_at: Returns the throughput at a p, rows per second; None without a model.
    """

    operator: Operator
    target: int
    reason: str
    sentence: str
    predicted: Mapping[str, float] = field(default_factory=dict)
    curve: Columns = field(default_factory=dict)
    training: Columns = field(default_factory=dict)
    contingencies: tuple[Contingency, ...] = ()
    need: float | None = None
    curve_at: Callable[[int], float] | None = None

    def throughput(self, parallelism: int) -> float:
        """Return the throughput at a p, rows per second: the model's, or in proportion to what is predicted."""
        if self.curve_at is not None:
            return self.curve_at(parallelism)
        return self.predicted.get("throughput_rows_per_s", 0.0) * parallelism / max(1, self.target)

    @property
    def changes(self) -> bool:
        """True if the operator gets another p."""
        return self.target != self.operator.now


def hold_job(job: Job, reason: Reason, bounds: Bounds) -> Sizing:
    """Return the hold of a whole job, with the figures of its most utilised operator."""
    lead = max(job.sizable, key=lambda o: utilisation(o.rate, o.ability) or 0.0)
    return size_operator(lead, lead.now or 0, reason, bounds)


def size_operator(operator: Operator, target: int, reason: Reason, bounds: Bounds) -> Sizing:
    """Return a sizing without a model, from the figures of this evaluation."""
    expected = operator.ability if target == operator.now else None
    sentence = message(reason, message_fields(operator, target, bounds))
    return Sizing(
        operator, target, reason.value, sentence, predicted_effect(operator.rate, expected), need=operator.rate
    )


def message_fields(operator: Operator, target: int, bounds: Bounds) -> Mapping[str, str]:
    """Return the fields of a message that need no model."""
    return {
        "app": operator.name,
        "now": count(operator.now or 0, "slot"),
        "then": count(target, "slot"),
        "low": str(bounds.min_slots),
        "high": str(bounds.max_slots),
        "min_key": bounds.min_key,
        "max_key": bounds.max_key,
        "arrives": arrival_phrase(operator.arrival_basis, format_number(operator.rate), operator.span_s),
        "ability_now": format_number(operator.ability),
    }


def predicted_effect(rate: float | None, throughput: float | None) -> Mapping[str, float]:
    """Return a Sizing's ``predicted`` for a load and a throughput, rows per second, without unknown figures."""
    effect = {"throughput_rows_per_s": throughput, "utilisation_ratio": utilisation(rate, throughput)}
    return {name: value for name, value in effect.items() if value is not None and math.isfinite(value)}


def utilisation(rate: float | None, ability: float | None) -> float | None:
    """Return rate / ability; None if it is unknown."""
    if rate is None or ability is None or ability <= 0:
        return None
    ratio = rate / ability
    return ratio if math.isfinite(ratio) else None


def proposal(optimizer: str, sizings: Sequence[Sizing]) -> Proposal:
    """Return all sizings as one proposal, with the model of the first operator that changes, otherwise of the first.

    With several operators or apps, predictions are named ``name/operator`` or ``name/app``.

    Args:
        optimizer: The tuner's registry name.
        sizings: One per operator, in any order.
    """
    if not sizings:
        return Proposal(optimizer, (), "no_signals", "No app was measured. No decision.")
    changing = [s for s in sizings if s.changes]
    shown = changing or list(sizings)
    lead = shown[0]
    alone = len(shown) == 1 and lead.operator.id is None
    sentence = lead.sentence if alone else " ".join(map(_with_name, shown))
    several = len({s.operator.app for s in shown}) > 1
    return Proposal(
        optimizer=optimizer,
        changes=tuple(s.operator.change(s.target) for s in changing),
        reason_code=lead.reason,
        sentence=sentence,
        predicted={
            f"{name}/{s.operator.id or s.operator.app}" if several or s.operator.id is not None else name: value
            for s in shown
            for name, value in s.predicted.items()
        },
        curve=lead.curve,
        training=lead.training,
        contingencies=tuple(line for s in sizings for line in s.contingencies),
    )


def _with_name(sizing: Sizing) -> str:
    name = sizing.operator.id or sizing.operator.app
    return sizing.sentence if sizing.sentence.startswith(name) else f"{name}: {sizing.sentence}"
