"""Turn an observation into a Decision, with the same function for live evaluations and replays.

Nothing is read from a table or stored here: the past comes in as :class:`DecisionContext`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from millrace.control import messages
from millrace.control.contingencies import allowed_lines, plan_in_force, plan_of
from millrace.control.evaluation import NO_REQUEST, EvaluationInput, GateResult, Hold, Request
from millrace.control.guard_context import GuardContext
from millrace.control.guards import first_veto, judge, quality_outcome, reason_code
from millrace.control.messages import REJECTED
from millrace.control.pending_decision import on_newest
from millrace.control.proposals import (
    FAILED,
    LAST,
    SPEC_CHANGED,
    VERIFICATION,
    Proposals,
    acts,
    collect_proposals,
    forced_proposals,
    spec_proposals,
    undoes,
)
from millrace.control.roll_back import undo
from millrace.control.spec_update import SpecUpdate
from millrace.model.decision import Action, Decision, GuardOutcome, Memory, Proposal
from millrace.model.deployment import BY_DECISION, CHANGEABLE, LIVE, PARTITION_MAP, SLOTS, Deployment
from millrace.model.protocols import Optimizer
from millrace.model.signals import Signals
from millrace.model.spec import SPEC, Mode, PipelineSpec

ACTION_OF_MODE = {Mode.ADVISE: Action.ADVISE, Mode.APPROVE: Action.AWAIT, Mode.AUTO: Action.APPLY}
MAPS = {PARTITION_MAP}
APART = ({*CHANGEABLE} - MAPS, {*LIVE}, {*LIVE} - MAPS)
"""Fields whose changes may be made without the others: all but maps of keys, and those that restart no driver."""


@dataclass(frozen=True)
class Question:
    """A Decision that a person was asked to approve, and the veto that ended it; None while it waits."""

    decision: Decision
    veto: Decision | None


@dataclass(frozen=True)
class DecisionContext:
    """Everything that a Decision depends on, except the observation.

    Attributes:
        spec: The pipeline.
        decision_id: Id of the Decision to make.
        now: The present (UTC).
        action: Action for a change that no guard vetoes.
        update: Change of the spec and its script since the newest Deployment took them over; None if there is none.
        rescale: Action for another number of state partitions in the spec; None to leave it out.
        owners: The optimizer that owns each field of the Deployment.
        optimizers: By registry name.
        guards: Context of the guards, with the newest Deployment; None before the first launch.
        ran: The Deployment that was measured, if it is known.
        memories: Each optimizer's memory after the last evaluation.
        request: A person's request to the evaluation.
        questions: Recent requests for approval, newest first.
    """

    spec: PipelineSpec
    decision_id: str
    now: datetime
    action: Action
    owners: Mapping[str, str]
    optimizers: Mapping[str, Optimizer]
    guards: GuardContext | None
    ran: Deployment | None = None
    memories: Mapping[str, Memory] = field(default_factory=dict)
    request: Request = NO_REQUEST
    questions: Sequence[Question] = ()
    rescale: Action | None = None
    update: SpecUpdate | None = None

    @property
    def forced(self) -> bool:
        """Whether a person forces a change."""
        return self.request.forced_slots is not None


def action_of(mode: Mode, request: Request) -> Action:
    """Return the action for a change that no guard vetoes, in a mode of the spec."""
    if request.dry_run:
        return Action.ADVISE
    return Action.APPLY if request.forced_slots is not None else ACTION_OF_MODE[mode]


def decide(observation: EvaluationInput, context: DecisionContext) -> tuple[Decision, Mapping[str, Memory]]:
    """Return the Decision of an evaluation, and what its optimizers want to remember.

    The Decision is a hold, an advice, a veto, or a change as far as ``context.action`` allows. If optimizers are not
    asked, none remembers anything.
    """
    draft, guards = _draft(observation, context), context.guards
    if guards is None:
        return _held(draft, observation.gate, messages.not_launched(context.spec.name)), {}
    roll_back = _roll_back(draft, observation, context, guards)
    if roll_back is not None and roll_back.target is not None:
        return roll_back, {}
    hold = _obstacle(observation, context, guards.current)
    if hold is not None:
        return _besides(_held(draft, observation.gate, hold), roll_back), {}
    of_spec = [
        _updated(draft, observation.gate, context, guards),
        _rescale(draft, observation.gate, context, guards),
    ]
    for change in of_spec:
        if change is not None and change.target is not None:
            return change, {}
    decision, memories = _evaluated(draft, observation, context, guards)
    return _besides(decision, roll_back, *of_spec), memories


def _besides(decision: Decision, *others: Decision | None) -> Decision:
    """Return a Decision that also says which changes wait or are not allowed now; it continues without them."""
    sentences = dict.fromkeys([decision.sentence, *(other.sentence for other in others if other is not None)])
    return replace(decision, sentence=" ".join(sentences))


def _roll_back(
    draft: Decision, observation: EvaluationInput, context: DecisionContext, guards: GuardContext
) -> Decision | None:
    """Return the Decision to undo the last change if it missed its prediction, else None.

    Deaths of drivers show without telemetry.
    """
    if context.forced or not guards.current.kept_running:
        return None
    sound = observation.gate.passed and observation.hold is None
    proposals = undo(context.spec.verification, guards, observation.signals if sound else None)
    if proposals is None:
        return None
    decision = replace(draft, proposals=proposals.proposals)
    action = Action.ROLL_BACK if context.action is Action.APPLY else context.action
    quality = quality_outcome(observation.gate)
    return _judged(decision, proposals, quality, replace(context, action=action), guards)


def _updated(draft: Decision, gate: GateResult, context: DecisionContext, guards: GuardContext) -> Decision | None:
    """Return the Decision on a newer spec or script; None if there is none."""
    update = context.update
    if update is None or context.forced:
        return None
    how = "; a restart with hand-over applies it" if guards.current.restarts(update.content) else ""
    proposal = Proposal(SPEC, (), SPEC_CHANGED, update.sentence + how)
    proposals = Proposals(update.content, (proposal,))
    return _judged(replace(draft, proposals=proposals.proposals), proposals, quality_outcome(gate), context, guards)


def _rescale(draft: Decision, gate: GateResult, context: DecisionContext, guards: GuardContext) -> Decision | None:
    """Return the Decision on the number of state partitions that the spec wants; None if it is in force."""
    if context.rescale is None or context.forced:
        return None
    proposals = spec_proposals(context.spec, guards.current)
    if not proposals.changes:
        return None
    decision = replace(draft, proposals=proposals.proposals)
    return _judged(decision, proposals, quality_outcome(gate), replace(context, action=context.rescale), guards)


def _evaluated(
    draft: Decision, observation: EvaluationInput, context: DecisionContext, guards: GuardContext
) -> tuple[Decision, Mapping[str, Memory]]:
    """Return the Decision on what the optimizers propose; in real-time mode none is asked."""
    unsized = None if context.forced or observation.signals is None else messages.real_time(observation.signals)
    if unsized is not None:
        return _held(draft, observation.gate, unsized), {}
    proposals = _proposals(observation.signals, context, guards.current)
    found = _weighed(draft, observation, context, guards, proposals)
    if proposals.placed_first and (found.action is Action.VETO or found.reason_code == REJECTED):
        # partitions may not move now: decide on slots as if they could not
        proposals = _proposals(observation.signals, context, guards.current, integrated=False)
        found = _weighed(draft, observation, context, guards, proposals)
    return found, proposals.memories


def _weighed(
    draft: Decision, observation: EvaluationInput, context: DecisionContext, guards: GuardContext, proposals: Proposals
) -> Decision:
    """Return the Decision on proposals."""
    decision = replace(draft, proposals=proposals.proposals, predicted=proposals.predicted)
    decision = replace(decision, signals=proposals.signals or draft.signals)  # a replay needs what the tuner got
    if proposals.failure is not None:
        message = f"No change: {proposals.failure}"
        return replace(decision, reason_code=FAILED, sentence=message, predicted={})
    lagging = messages.lagging_partitions(observation.signals)
    problems = messages.graph_problems(observation.signals, streams_move=context.spec.fleet is not None)
    if not proposals.changes:
        unchanged = _with_contingencies(_unchanged(decision, proposals, context.request), proposals, context, guards)
        missing = _missing_slots(observation.signals, context, guards.current)
        return _with_notes(unchanged, missing, lagging, problems)
    quality = quality_outcome(observation.gate, forced=context.forced)
    judged = _with_contingencies(_judged(decision, proposals, quality, context, guards), proposals, context, guards)
    return _with_notes(judged, lagging, problems)


def _missing_slots(signals: Signals | None, context: DecisionContext, current: Deployment) -> str:
    if signals is None or not_running_yet(signals, current, context.ran) is not None:
        return ""
    return messages.missing_slots(signals, current)


def _with_contingencies(
    decision: Decision, proposals: Proposals, context: DecisionContext, guards: GuardContext
) -> Decision:
    """Return a Decision with its contingencies, for the slots that it leads to.

    If it was vetoed, or nothing could be sized, the lines in force stay as far as the guards still allow them.
    """
    vetoed = decision.action is Action.VETO
    content = guards.current if vetoed else decision.target or proposals.content
    of_owner = [p for p in decision.proposals if p.optimizer == context.owners.get(SLOTS)]
    planned = tuple(line for p in of_owner for line in p.contingencies)
    if vetoed or not (planned or any(p.predicted for p in of_owner)):
        in_force = plan_in_force(guards.current, context.spec)
        planned = () if in_force is None else in_force.lines
    lines = allowed_lines(planned, content, guards, changes=decision.target is not None)
    decision = replace(decision, contingencies=lines)
    if decision.target is None or decision.action is not Action.APPLY:
        return decision
    return replace(decision, target=replace(decision.target, contingencies=plan_of(decision, context.spec)))


def _with_notes(decision: Decision, *notes: str) -> Decision:
    return replace(decision, sentence=" ".join(filter(None, (decision.sentence, *notes))))


def not_running_yet(signals: Signals, current: Deployment, ran: Deployment | None) -> Hold | None:
    """Return a hold if the signals are of another version; None if they are of this one.

    Args:
        signals: Signals of this evaluation.
        current: The newest version.
        ran: The version that was measured, if it is known; the same apps under another number are good enough.
    """
    if signals.deployment_version == current.version or (ran is not None and ran.apps == current.apps):
        return None
    return messages.not_running_yet(current.version, signals.deployment_version)


def _draft(observation: EvaluationInput, context: DecisionContext) -> Decision:
    cursor = observation.since if context.request.dry_run else observation.until or observation.since
    return Decision(
        decision_id=context.decision_id,
        pipeline=context.spec.name,
        time=context.now,
        action=Action.HOLD,
        reason_code="",
        sentence="",
        signals=observation.signals,
        base_version=context.guards.current.version if context.guards else None,
        config_hash=context.spec.config_hash,
        cursor_version=cursor.telemetry_version,
        cursor_until=cursor.until,
        cursor_table=cursor.table_id,
    )


def _held(draft: Decision, gate: GateResult, hold: Hold) -> Decision:
    trace = () if gate.passed else (quality_outcome(gate),)
    return replace(draft, reason_code=hold.reason, sentence=hold.message, guards=trace)


def _obstacle(observation: EvaluationInput, context: DecisionContext, current: Deployment) -> Hold | None:
    """Return the hold that ends the evaluation before any optimizer is asked; None if there is none."""
    if current.detached:
        return messages.detached(context.spec.name)
    if not current.sizeable:
        return messages.stopped(context.spec.name)
    if context.forced:
        return None
    if observation.hold is not None:
        return observation.hold
    if not observation.gate.passed:
        return messages.bad_telemetry(observation.gate)
    if observation.signals is None:
        return messages.NOTHING_MEASURED
    return not_running_yet(observation.signals, current, context.ran)


def _proposals(
    signals: Signals | None, context: DecisionContext, current: Deployment, *, integrated: bool = True
) -> Proposals:
    if context.forced or signals is None:
        return forced_proposals(context.request, context.spec.app_named(context.request.app).app, current)
    given = (context.optimizers, signals, current, context.memories, context.owners)
    return collect_proposals(*given, integrated=integrated)


def _unchanged(decision: Decision, proposals: Proposals, request: Request) -> Decision:
    proposed = next((p.reason_code for p in proposals.proposals if p.changes), None)
    advised = next((p.reason_code for p in proposals.proposals if p.advises), None)
    # the tuner is asked last, except for placement, and gives a reason in every evaluation
    sized = (p.reason_code for p in reversed(proposals.proposals) if p.optimizer not in LAST)
    last = next(sized, "nothing_proposed")
    return replace(
        decision,
        action=Action.ADVISE if proposals.advice or advised else Action.HOLD,
        reason_code=proposed or advised or last,
        sentence=messages.explain_hold(proposals, request),
    )


def _judged(
    decision: Decision, proposals: Proposals, quality: GuardOutcome, context: DecisionContext, guards: GuardContext
) -> Decision:
    accepted, trace, put_off = _passing(proposals, guards)
    veto = first_veto(trace)
    action = Action.VETO if veto else context.action
    decision = replace(decision, guards=(quality, *trace))
    if action is Action.AWAIT:
        hold = _asked_before(context.questions, guards.current, accepted.content)
        if hold is not None:
            return replace(decision, reason_code=hold.reason, sentence=hold.message)
    message = messages.explain_change(action, accepted, decision.signals, veto)
    next_run = messages.NEXT_RUN if guards.current.finished is not None and veto is None else ""
    message = " ".join(filter(None, (message, put_off, next_run)))
    proposed = next((p.reason_code for p in proposals.proposals if acts(p)), "")
    decision = replace(
        decision,
        action=action,
        reason_code=reason_code(veto) if veto else proposed,
        sentence=message,
        predicted=accepted.predicted,
    )
    if action in (Action.VETO, Action.ADVISE):
        return decision
    author = VERIFICATION if undoes(accepted.proposals) else BY_DECISION
    author = (context.request.requested_by or "person") if context.forced else author
    # the version exists only after approval
    reason = messages.without_lead(message)
    target = replace(accepted.content, author=author, decision_id=decision.decision_id, reason=reason)
    return replace(decision, target=target)


def _passing(proposals: Proposals, guards: GuardContext) -> tuple[Proposals, tuple[GuardOutcome, ...], str]:
    """Return the proposals to continue with, their trace, and the message on what was left out.

    If the guards veto all changes together, some are judged by themselves: a shed ratio must not wait until slots may
    change, slots must not wait until a map of keys may, and an app must not wait until another one may change.
    """
    trace = judge(guards, proposals.content)
    veto = first_veto(trace)
    if veto is None or undoes(proposals.proposals):
        return proposals, trace, ""
    apart = [proposals.limited_to(fields, guards.current) for fields in APART]
    for part in (*apart, proposals.of_apps(_free(proposals, guards), guards.current)):
        if part.changes and part.changes != proposals.changes:
            of_part = judge(guards, part.content)
            if first_veto(of_part) is None:
                left_out = [change for change in proposals.changes if change not in part.changes]
                return part, of_part, messages.put_off(left_out, veto)
    return proposals, trace, ""


def _free(proposals: Proposals, guards: GuardContext) -> set[str]:
    """Return the apps whose own changes no guard vetoes; no app gives slots away that another may not take now."""
    apps = {change.app for change in proposals.changes}
    if len(apps) < 2 or guards.undone is not None or any(change.field in LIVE for change in proposals.changes):
        return set()
    shared = guards.signals is not None and guards.signals.budget is not None
    smaller = {c.app for c in proposals.changes if shared and c.field == SLOTS and c.value < c.before}
    contents = {app: proposals.of_apps({app}, guards.current).content for app in apps - smaller}
    return {app for app, content in contents.items() if first_veto(judge(guards, content)) is None}


def _asked_before(questions: Sequence[Question], newest: Deployment, content: Deployment) -> Hold | None:
    """Return why a person is not asked again: a question still waits, or the same content was refused."""
    for question in questions:
        asked = on_newest(question.decision, newest)
        if asked is None:
            continue
        if question.veto is None:
            return messages.still_waiting(question.decision)
        if question.veto.reason_code == REJECTED and asked.content == content.content:
            return messages.refused_before(question.veto)
    return None
