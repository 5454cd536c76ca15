"""Ask the optimizers, each on what was accepted before it, and divide their proposals into changes and advice.

Each field of a Deployment has one owner; another optimizer's proposal for it is recorded as advice. The order in an
evaluation is admission, join workers, slots, then limits of batches, placement on the resulting executors, and maps of
keys.

Before the tuner is asked, the optimizer that places partitions says what placement alone would change ([ALBIC],
Algorithm 1): the tuner gets it with the signals. If executors are to be emptied over several evaluations, the slots are
lowered in the last of them.

[ALBIC] Madsen, Zhou and Cao: Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine, 2016.
"""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from millrace.control.evaluation import Request
from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import (
    BY_VERIFICATION,
    JOIN_FIELDS,
    MAX_PARALLELISM,
    PLACEMENT,
    SLOTS,
    Change,
    Deployment,
)
from millrace.model.errors import MillraceError
from millrace.model.key_map import PARTITION_OPTIMIZER
from millrace.model.placement import DRAINING, PLACEMENT_FIRST
from millrace.model.protocols import ForeseesPlacement, Optimizer
from millrace.model.signals import Signals
from millrace.model.spec import BATCH_OPTIMIZER, MEMORY_OPTIMIZER, PERSON, PLACEMENT_OPTIMIZER, SPEC, PipelineSpec

FIRST, LAST = ("drfm", "esj", MEMORY_OPTIMIZER), (BATCH_OPTIMIZER, PLACEMENT_OPTIMIZER, PARTITION_OPTIMIZER)
"""Optimizers in the order they are asked. All others are tuners and come in between: placement must know the number of
executors, and batches grow only if slots stay."""

FAILED = "optimizer_failed"
SPEC_CHANGED = "spec_changed"
"""Reason code of the proposal that takes over a newer spec or script; it names no fields."""
VERIFICATION = BY_VERIFICATION
"""Proposer that undoes changes that missed predictions."""


@dataclass(frozen=True)
class Advice:
    """A proposed change that is not made, and why."""

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
class Proposals:
    """What an evaluation may change.

    Attributes:
        content: The Deployment's content with every accepted change.
        proposals: Every proposal, in the order they were made.
        changes: The accepted changes.
        predicted: Predicted effect of the proposals with accepted changes.
        advice: Proposed changes that remain advice.
        memories: New memories of the optimizers, by name; those that learned nothing new are left out.
        signals: The signals that the tuner got; None if no optimizer was asked.
        failure: Why an optimizer that may change something gave no answer; None if all did. Nothing is changed then.
    """

    content: Deployment
    proposals: tuple[Proposal, ...] = ()
    changes: tuple[Change, ...] = ()
    predicted: Mapping[str, float] = field(default_factory=dict)
    advice: tuple[Advice, ...] = ()
    memories: Mapping[str, Memory] = field(default_factory=dict)
    signals: Signals | None = None
    failure: str | None = None

    def limited_to(self, fields: Collection[str], current: Deployment) -> Proposals:
        """Return these with only the changes of some fields, to be made on ``current``."""
        return self._only([change for change in self.changes if change.field in fields], current)

    def of_apps(self, apps: Collection[str], current: Deployment) -> Proposals:
        """Return these with only the changes of some apps, to be made on ``current``."""
        return self._only([change for change in self.changes if change.app in apps], current)

    @property
    def placed_first(self) -> bool:
        """Whether the tuner added no slots because partitions move."""
        return any(proposal.reason_code == PLACEMENT_FIRST for proposal in self.proposals)

    def put_off(self, current: Deployment) -> Proposals:
        """Return these without freed slots whose executors still have to be emptied, to be made on ``current``.

        The tuner forgets that it proposed them, and proposes them again.
        """
        drained = {c.app for p in self.proposals if p.reason_code == DRAINING for c in p.changes}
        late = [c for c in self.changes if c.field == SLOTS and c.app in drained and c.value < c.before]
        if not late:
            return self
        behind = {p.optimizer for p in self.proposals if any(change in late for change in p.changes)}
        proposals = tuple(
            replace(p, changes=(), reason_code=DRAINING, predicted={}) if p.optimizer in behind else p
            for p in self.proposals
        )
        memories = {name: memory for name, memory in self.memories.items() if name not in behind}
        kept = [change for change in self.changes if change not in late]
        return replace(self, proposals=proposals, memories=memories)._only(kept, current)

    def _only(self, changes: Sequence[Change], current: Deployment) -> Proposals:
        """Return these with only some of the accepted changes, to be made on ``current``."""
        changes = tuple(changes)
        predicted: dict[str, float] = {}
        for proposal in self.proposals:
            if any(change in changes for change in proposal.changes):
                predicted |= proposal.predicted
        return replace(self, content=current.with_changes(changes), changes=changes, predicted=predicted)


def collect_proposals(
    optimizers: Mapping[str, Optimizer],
    signals: Signals,
    current: Deployment,
    memories: Mapping[str, Memory],
    owners: Mapping[str, str],
    *,
    integrated: bool = True,
) -> Proposals:
    """Return what the optimizers propose, asked in the order of :func:`in_order`.

    Args:
        optimizers: By registry name.
        signals: Signals of this evaluation.
        current: The Deployment that runs.
        memories: Each optimizer's memory after the last evaluation.
        owners: The spec's owner of each field.
        integrated: Give the tuner what placement alone would change, if an optimizer that may place knows it.
    """
    if integrated and owners.get(PLACEMENT) == PLACEMENT_OPTIMIZER:
        try:
            signals = _with_potential(optimizers, signals, current, memories)
        except Exception as error:
            return Proposals(current, failure=f"{PLACEMENT_OPTIMIZER} failed: {_where(error)}")
    content = current
    proposals: list[Proposal] = []
    changes: list[Change] = []
    advice: list[Advice] = []
    predicted: dict[str, float] = {}
    learned: dict[str, Memory] = {}
    for name in in_order(optimizers):
        before = memories.get(name, {})
        try:
            proposal, after = _answer(name, optimizers[name].propose(signals, content, before))
        except Exception as error:
            failure = f"{name} failed: {_where(error)}"
            if name in owners.values():
                return Proposals(current, tuple(proposals), failure=failure)
            # an optimizer that can only advise must not keep the others from changing what they own
            proposal, after = Proposal(name, (), FAILED, failure), before
        if after is not before:
            learned[name] = after
        proposals.append(proposal)
        if proposal.reason_code == PLACEMENT_FIRST and signals.potential is not None:
            signals = replace(signals, potential=replace(signals.potential, needed=True))
        accepted, advised = arbitrate(proposal, content, owners)
        advice += advised
        if accepted:
            content = content.with_changes(accepted)
            changes += accepted
            predicted |= proposal.predicted
    found = Proposals(content, tuple(proposals), tuple(changes), predicted, tuple(advice), learned, signals)
    return found.put_off(current)


def _with_potential(
    optimizers: Mapping[str, Optimizer], signals: Signals, current: Deployment, memories: Mapping[str, Memory]
) -> Signals:
    """Return the signals with what placement alone would change, if an optimizer knows it."""
    placer = optimizers.get(PLACEMENT_OPTIMIZER)
    if not isinstance(placer, ForeseesPlacement):
        return signals
    return replace(signals, potential=placer.potential(signals, current, memories.get(PLACEMENT_OPTIMIZER, {})))


def _is_tuner(name: str) -> bool:
    return name not in (*FIRST, *LAST)


def forced_proposals(request: Request, app: str, current: Deployment) -> Proposals:
    """Return the slots that a person forces on an app as the only proposal.

    Raises:
        MillraceError: If the Deployment does not have the app yet.
    """
    if app not in current.apps:
        deployed, remedy = ", ".join(sorted(current.apps)), f"Launch {current.pipeline} with its new spec first."
        raise MillraceError("app", app, deployed, remedy)
    before, wanted = current.apps[app].slots, int(request.forced_slots or 0)
    change = Change(app, "slots", before, wanted)
    changes = (change,) if wanted != before else ()
    sentence = f"{request.requested_by or 'a person'} asked for {wanted} slots"
    proposal = Proposal(PERSON, changes, "forced", sentence)
    return Proposals(current.with_changes(changes), (proposal,), changes)


def spec_proposals(spec: PipelineSpec, current: Deployment) -> Proposals:
    """Return the number of state partitions that the spec wants as the only proposal; a join keeps its number.

    Args:
        spec: The pipeline.
        current: The Deployment that runs.
    """
    wanted = {name: of_app.max_parallelism for name, of_app in spec.app_specs.items()}
    changes = tuple(
        Change(name, MAX_PARALLELISM, app.max_parallelism, wanted[name])
        for name, app in current.apps.items()
        if spec.join is None and name in wanted and app.max_parallelism != wanted[name]
    )
    sentence = (
        "the spec says so; the driver stops, its state is rescaled, and a copy of the old state stays "
        "until the new driver runs"
    )
    proposal = Proposal(SPEC, changes, "state_partitions", sentence)
    return Proposals(current.with_changes(changes), (proposal,), changes)


def undoes(proposals: Iterable[Proposal]) -> bool:
    """Return whether a Decision's proposals undo a change that missed its prediction."""
    return any(proposal.optimizer == VERIFICATION for proposal in proposals)


def acts(proposal: Proposal) -> bool:
    """Return whether a proposal would change anything."""
    return bool(proposal.changes) or proposal.reason_code == SPEC_CHANGED


def is_forced(proposals: Iterable[Proposal]) -> bool:
    """Return whether a Decision's proposals are a person's own."""
    return any(proposal.optimizer == PERSON for proposal in proposals)


def in_order(optimizers: Iterable[str]) -> list[str]:
    """Return registry names in the order they are asked."""
    known = set(optimizers)
    tuners = sorted(filter(_is_tuner, known))
    return [name for name in (*FIRST, *tuners, *LAST) if name in known]


def arbitrate(
    proposal: Proposal, current: Deployment, owners: Mapping[str, str]
) -> tuple[tuple[Change, ...], tuple[Advice, ...]]:
    """Return which changes of a proposal are accepted, and which remain advice.

    Args:
        proposal: Proposal of one optimizer.
        current: The Deployment with everything that was accepted before this proposal.
        owners: The spec's owner of each field.
    """
    accepted: dict[tuple[object, ...], Change] = {}
    advice: list[Advice] = []
    for change in proposal.changes:
        why = _objection(change, proposal.optimizer, current, owners)
        which = (change.app, change.field, change.operator, change.stream, change.partition)
        if why is None and which in accepted:
            why = "it proposed this field twice"
        if why is not None:
            advice.append(Advice(proposal.optimizer, change, why))
        elif change.value != change.before:
            accepted[which] = change
    return tuple(accepted.values()), tuple(advice)


def _objection(change: Change, optimizer: str, current: Deployment, owners: Mapping[str, str]) -> str | None:
    if change.app not in current.apps:
        return f"{current.pipeline} has no app {change.app}"
    owner = owners.get(change.field)
    if owner != optimizer:
        return f"{change.field} belongs to {owner}" if owner else f"only a person changes {change.field}"
    present = current.value(change)
    if present is None and change.field in JOIN_FIELDS:
        return f"{current.pipeline} has no join"
    if present is None:
        return f"{change.app} has no operator {change.operator} with its own parallelism"
    if present != change.before:
        return f"it expected {change.before}, but {present} is set"
    return None


def _answer(name: str, answer: object) -> tuple[Proposal, Memory]:
    """Return an optimizer's answer; a proposal under another name would own none of its fields.

    Raises:
        MillraceError: If the answer is not a proposal of its own and a memory.
    """
    match answer:
        case (Proposal() as proposal, Mapping() as memory) if proposal.optimizer == name:
            return proposal, memory
        case (Proposal() as proposal, Mapping()):
            remedy = f"It is registered as {name}, but its proposals are named {proposal.optimizer}: use one name."
            raise MillraceError("Proposal.optimizer", proposal.optimizer, name, remedy)
    remedy = f"Return both from propose() of {name}."
    raise MillraceError("answer", type(answer).__name__, "(Proposal, Memory)", remedy)


def _where(error: Exception) -> str:
    if isinstance(error, MillraceError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}{place}"
