"""From what was measured and wished to a Decision, by the same code for a live look and for a replayed one.

Nothing is read from a table and nothing is stored here: what came before comes in as :class:`Circumstances`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from include.control.changes import last_scalings
from include.control.evaluation import GateResult, Request
from include.control.guards import Case, first_veto, judge, reason_code
from include.control.messages import change_sentence, hold_sentence, put_off_sentence
from include.control.proposals import FAILED, Wishes
from include.lake.reconfigurations import BROKEN
from include.model.decision import Action, Decision, GuardOutcome, Outcome, Reconfiguration
from include.model.deployment import Deployment
from include.model.signals import Bounds, Signals
from include.model.spec import PipelineSpec

PLAIN = Request()
JUDGED_BY = timedelta(hours=2)
"""How far back the guards look: longer than any of them needs."""
FELL = {*BROKEN, Outcome.ROLLED_BACK}

Answer = Callable[[Decision, Deployment], tuple[str, str] | None]
"""Says why a person is not asked about a content, as code and sentence; None if a person is to be asked."""


@dataclass(frozen=True)
class Circumstances:
    """What the guards judge a change by, beside the change itself.

    Attributes:
        now: The present (UTC).
        gate: What the quality gate said.
        bounds: Allowed slots of an app.
        max_per_hour: Changes allowed in any hour.
        history: Reconfigurations of the last :data:`JUDGED_BY`, newest first.
        others: Newest Deployments of the other pipelines.
        decision: Finds a former Decision by its id.
        deployment: Finds a Deployment of the pipeline by its version.
    """

    now: datetime
    gate: GateResult
    bounds: Bounds
    max_per_hour: int
    history: Sequence[Reconfiguration]
    others: Sequence[Deployment]
    decision: Callable[[str], Decision | None]
    deployment: Callable[[int], Deployment | None]

    def case(self, spec: PipelineSpec, current: Deployment, target: Deployment, *, forced: bool = False) -> Case:
        """Return the guards' case of a change from one content to another, demanded by a person where it is forced."""
        return Case(
            now=self.now,
            current=current,
            target=target,
            gate=self.gate,
            bounds=self.bounds,
            limits=spec.guards,
            max_per_hour=self.max_per_hour,
            history=self.history,
            scalings=last_scalings(self.history, self.decision),
            others=self.others,
            forced=forced,
            failed=[c for c in blamed(self.history) if self._leads_to(c, target)],
            open_at_most_s=spec.ready_deadline_s + spec.stop_deadline_s,
            join=spec.join,
        )

    def _leads_to(self, change: Reconfiguration, target: Deployment) -> bool:
        tried = self.deployment(change.to_version or 0)
        return tried is not None and tried.apps == target.apps


def blamed(history: Sequence[Reconfiguration]) -> list[Reconfiguration]:
    """Return the changes that failed by what they changed to, newest first.

    A driver that failed while it served did not fail by a change. Nor did a new content where the old one, tried after
    it, failed too.

    Args:
        history: Reconfigurations, newest first.
    """
    return [
        change
        for change, later in zip(history, [None, *history], strict=False)
        if change.outcome in FELL and change.from_version != change.to_version and not _fails_too(change, later)
    ]


def _fails_too(change: Reconfiguration, later: Reconfiguration | None) -> bool:
    return later is not None and later.outcome in BROKEN and later.to_version != change.to_version


def not_running_yet(signals: Signals, current: Deployment, ran: Deployment | None = None) -> tuple[str, str] | None:
    """Return why signals of another version decide nothing, as code and sentence; None if they are of this one.

    Args:
        signals: What was measured.
        current: The newest version.
        ran: The version that was measured, if it is known: the same apps under another number are as good.
    """
    if signals.deployment_version == current.version or (ran is not None and ran.apps == current.apps):
        return None
    words = f"Version {current.version} is not measured yet: the telemetry is of version {signals.deployment_version}."
    return "not_running_yet", words


def nobody_waits(decision: Decision, content: Deployment) -> tuple[str, str] | None:
    """Return that nothing keeps a person from being asked."""
    return None


def ruled(
    blank: Decision,
    wishes: Wishes,
    case: Callable[[Deployment], Case],
    action: Action,
    request: Request = PLAIN,
    answer: Answer = nobody_waits,
) -> Decision:
    """Return what becomes of the wishes: a hold, an advice, a veto, or a change in the pipeline's mode.

    Args:
        blank: The Decision as far as it is known: id, time, signals, base version.
        wishes: What the optimizers want.
        case: Gives the guards' case of a content that is wanted.
        action: What becomes of a change that no guard vetoes.
        request: What a person asked of the look.
        answer: Whether a person who would have to agree has been asked already.
    """
    decision = replace(blank, proposals=wishes.proposals, predicted=wishes.predicted)
    if wishes.failure is not None:
        words = f"Nothing is changed: {wishes.failure}"
        return replace(decision, reason_code=FAILED, sentence=words, predicted={})
    reason = next((p.reason_code for p in wishes.proposals if p.changes), None)
    if not wishes.changes:
        advised = next((p.reason_code for p in wishes.proposals if p.advises), None)
        held = Action.ADVISE if wishes.advice or advised else Action.HOLD
        # who sizes comes last, and has a word on every look
        code = reason or advised or next((p.reason_code for p in reversed(wishes.proposals)), "nothing_proposed")
        return replace(decision, action=held, reason_code=code, sentence=hold_sentence(wishes, request))
    wishes, trace, put_off = _passing(wishes, case)
    veto = first_veto(trace)
    action = Action.VETO if veto else action
    if action is Action.AWAIT and (known := answer(decision, wishes.content)) is not None:
        return replace(decision, reason_code=known[0], sentence=known[1], guards=trace)
    words = change_sentence(action, wishes, blank.signals, _objection(veto))
    sentence = " ".join(filter(None, (words, put_off)))
    decision = replace(
        decision, action=action, sentence=sentence, reason_code=reason or "", guards=trace, predicted=wishes.predicted
    )
    if veto is not None:
        return replace(decision, reason_code=reason_code(veto))
    if action is Action.ADVISE:
        return decision
    author = (request.requested_by or "person") if request.forced_slots is not None else "decision"
    target = replace(wishes.content, author=author, decision_id=blank.decision_id, reason=sentence)
    return replace(decision, target=target)


def _passing(wishes: Wishes, case: Callable[[Deployment], Case]) -> tuple[Wishes, tuple[GuardOutcome, ...], str]:
    """Return the wishes to go on with, their trace, and the sentence on what was left out of them.

    A shed ratio must not wait until slots may change: where the guards veto all together, what starts no driver is
    judged by itself.
    """
    asked = case(wishes.content)
    trace = judge(asked)
    veto = first_veto(trace)
    live = wishes.live(asked.current)
    if veto is None or not live.changes or live.changes == wishes.changes:
        return wishes, trace, ""
    again = judge(case(live.content))
    if first_veto(again) is not None:
        return wishes, trace, ""
    left_out = [change for change in wishes.changes if change not in live.changes]
    return live, again, put_off_sentence(left_out, _objection(veto))


def _objection(veto: GuardOutcome | None) -> str:
    return f"{veto.guard}: {veto.reason}" if veto else ""
