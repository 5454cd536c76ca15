"""Who may change what: each field of a Deployment has one owner, and what others propose for it is advice.

Order within a look (design, "What a pipeline can get"): admission and placement plans, then worker counts, then
slots on what remains. Each optimizer is asked with what was accepted before it already in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from include.model.decision import Proposal
from include.model.deployment import JOIN_FIELDS, Change, Deployment

ORDER = ("drfm", "albic", "esj")
"""Optimizers in the order they are asked; any other is a tuner, sizes what remains and comes last."""

NEEDS_LEVEL = {"slots": 0, "memory_mb": 0, "parallelism": 1, "ingest": 0, **dict.fromkeys(JOIN_FIELDS, 1)}
"""Least level of a pipeline at which Millrace can change a field."""

OUT_OF_REACH = 3


@dataclass(frozen=True)
class Advice:
    """A change that was proposed and is not made, and why."""

    optimizer: str
    change: Change
    why: str

    @property
    def sentence(self) -> str:
        """The advice for a person."""
        c = self.change
        whose = c.operator or c.stream
        of = f" of {whose}" if whose else ""
        return f"{self.optimizer} advises {c.app}: {c.field}{of} {c.before} -> {c.value} ({self.why})"


@dataclass(frozen=True)
class Ruling:
    """What one proposal may change, and what remains advice."""

    accepted: tuple[Change, ...] = ()
    advice: tuple[Advice, ...] = ()


def in_order(optimizers: Iterable[str]) -> list[str]:
    """Return registry names in the order they are asked."""
    return sorted(optimizers, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def rule(proposal: Proposal, current: Deployment, owners: Mapping[str, str], level: int) -> Ruling:
    """Divide a proposal into what is accepted and what is advice.

    Args:
        proposal: What one optimizer wants.
        current: The Deployment with all that was accepted before this proposal.
        owners: The spec's owner of each field.
        level: The pipeline's level, 0..2.
    """
    accepted: dict[tuple[str, str, str | None, str | None], Change] = {}
    advice: list[Advice] = []
    for change in proposal.changes:
        why = _objection(change, proposal.optimizer, current, owners, level)
        which = (change.app, change.field, change.operator, change.stream)
        if why is None and which in accepted:
            why = "it proposed this field twice"
        if why is not None:
            advice.append(Advice(proposal.optimizer, change, why))
        elif change.value != change.before:
            accepted[which] = change
    return Ruling(tuple(accepted.values()), tuple(advice))


def _objection(
    change: Change, optimizer: str, current: Deployment, owners: Mapping[str, str], level: int
) -> str | None:
    needed = NEEDS_LEVEL.get(change.field, OUT_OF_REACH)
    if change.app not in current.apps:
        return f"{current.pipeline} has no app {change.app}"
    if needed > level:
        return f"{change.field} cannot be changed in a pipeline of level L{level}"
    owner = owners.get(change.field)
    if owner != optimizer:
        return f"{change.field} belongs to {owner}" if owner else f"{change.field} is changed by hand only"
    found = current.value(change)
    if found is None and change.field in JOIN_FIELDS:
        return f"{current.pipeline} has no join"
    if found is None:
        return f"{change.app} has no operator {change.operator} with a p of its own"
    if found != change.before:
        return f"it counted on {change.before}, and {found} is set"
    return None
