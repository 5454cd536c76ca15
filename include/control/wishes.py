"""Ask the optimizers, each on what was accepted before it, and divide their wishes into changes and advice."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from include.control.arbiter import Advice, in_order, rule
from include.control.look import Request
from include.model.decision import Memory, Proposal
from include.model.deployment import LIVE, Change, Deployment
from include.model.protocols import Optimizer
from include.model.signals import Signals

FAILED = "optimizer_failed"
PERSON = "person"


@dataclass(frozen=True)
class Wishes:
    """What a look may change.

    Attributes:
        content: The Deployment's content with every accepted change.
        proposals: Every proposal, in the order they were made.
        changes: The accepted changes.
        predicted: Predicted effect of the proposals with accepted changes.
        advice: What remains advice.
        memories: What the optimizers want to remember, by name; without those that learned nothing new.
        failure: Why an optimizer that may change something could not answer; None if all did. Nothing is changed then.
    """

    content: Deployment
    proposals: tuple[Proposal, ...] = ()
    changes: tuple[Change, ...] = ()
    predicted: Mapping[str, float] = field(default_factory=dict)
    advice: tuple[Advice, ...] = ()
    memories: Mapping[str, Memory] = field(default_factory=dict)
    failure: str | None = None

    def live(self, current: Deployment) -> Wishes:
        """Return the wishes without the changes that start a driver anew, to be made on ``current``."""
        changes = tuple(change for change in self.changes if change.field in LIVE)
        predicted: dict[str, float] = {}
        for proposal in self.proposals:
            if any(change in changes for change in proposal.changes):
                predicted |= proposal.predicted
        return replace(self, content=current.with_changes(changes), changes=changes, predicted=predicted)


def ask(
    optimizers: Mapping[str, Optimizer],
    signals: Signals,
    current: Deployment,
    memories: Mapping[str, Memory],
    owners: Mapping[str, str],
) -> Wishes:
    """Return what the optimizers want, in the design's order.

    Args:
        optimizers: By registry name.
        signals: What was measured.
        current: The Deployment that runs.
        memories: What each optimizer remembered after the last look.
        owners: The spec's owner of each field.
    """
    content = current
    proposals: list[Proposal] = []
    changes: list[Change] = []
    advice: list[Advice] = []
    predicted: dict[str, float] = {}
    kept: dict[str, Memory] = {}
    for name in in_order(optimizers):
        before = memories.get(name, {})
        try:
            proposal, after = optimizers[name].propose(signals, content, before)
        except Exception as error:
            failure = f"{name} failed: {_where(error)}"
            if name in owners.values():
                return Wishes(current, tuple(proposals), failure=failure)
            # who can only advise must not keep the others from changing what they own
            proposal, after = Proposal(name, (), FAILED, failure), before
        if after is not before:
            kept[name] = after
        proposals.append(proposal)
        ruling = rule(proposal, content, owners, signals.level)
        advice += ruling.advice
        if ruling.accepted:
            content = content.with_changes(ruling.accepted)
            changes += ruling.accepted
            predicted |= proposal.predicted
    return Wishes(content, tuple(proposals), tuple(changes), predicted, tuple(advice), kept)


def forced(request: Request, app: str, current: Deployment) -> Wishes:
    """Return a person's wish for an app's slots as the only proposal."""
    before, wanted = current.apps[app].slots, int(request.forced_slots or 0)
    change = Change(app, "slots", before, wanted)
    changes = (change,) if wanted != before else ()
    sentence = f"{request.requested_by or 'a person'} asked for {wanted} slots"
    proposal = Proposal(PERSON, changes, "forced", sentence)
    return Wishes(current.with_changes(changes), (proposal,), changes)


def is_forced(proposals: Iterable[Proposal]) -> bool:
    """Say whether a Decision's proposals are a person's own."""
    return any(proposal.optimizer == PERSON for proposal in proposals)


def _where(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}{place}"
