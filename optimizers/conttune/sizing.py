"""What a tuner wants for each operator of a job, and all of it as one Proposal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from include.model.decision import Proposal
from optimizers.conttune.job import Operator

Columns = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Sizing:
    """What is wanted for one operator.

    Attributes:
        operator: The operator; one that can be sized.
        target: Wanted p; the present one for "stay".
        reason: Why, a code in snake case.
        sentence: The same for a person.
        predicted: Effect of the target by name with unit; empty without a model.
        curve: The model's curve, columns of equal length; empty without a model.
        training: Points the model was fitted on.
    """

    operator: Operator
    target: int
    reason: str
    sentence: str
    predicted: Mapping[str, float] = field(default_factory=dict)
    curve: Columns = field(default_factory=dict)
    training: Columns = field(default_factory=dict)

    @property
    def changes(self) -> bool:
        """True if the operator is to have another p."""
        return self.target != self.operator.now


def proposal(optimizer: str, sizings: Sequence[Sizing]) -> Proposal:
    """Return all sizings as one proposal, with the model of the first operator that changes, or else of the first.

    What is predicted for an operator of several is told as ``name/operator``.

    Args:
        optimizer: The tuner's registry name.
        sizings: One an operator, in any order.
    """
    if not sizings:
        return Proposal(optimizer, (), "no_signals", "No app was measured: nothing to decide.")
    changing = [s for s in sizings if s.changes]
    told = changing or list(sizings)
    lead = told[0]
    return Proposal(
        optimizer=optimizer,
        changes=tuple(s.operator.change(s.target) for s in changing),
        reason_code=lead.reason,
        sentence=lead.sentence if len(told) == 1 and lead.operator.id is None else " ".join(_named(s) for s in told),
        predicted={_key(s, name): value for s in told for name, value in s.predicted.items()},
        curve=lead.curve,
        training=lead.training,
    )


def hold(optimizer: str, reason: str, sentence: str) -> Proposal:
    """Return the proposal to change nothing."""
    return Proposal(optimizer, (), reason, sentence)


def _key(sizing: Sizing, name: str) -> str:
    return name if sizing.operator.id is None else f"{name}/{sizing.operator.id}"


def _named(sizing: Sizing) -> str:
    return f"{sizing.operator.id or sizing.operator.app}: {sizing.sentence}"
