"""Add the slots that a Deployment plans for more arrival, at once; the next evaluation confirms or corrects it.

The driver's agent makes a Decision and a version like any other, from a line that the last evaluation planned and the
guards allowed. A plan only scales up, is carried out once, and only as it stands in the newest version.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from millrace.lake.decisions import TABLE, DecisionStore, new_decision_id
from millrace.lake.deployments import TABLE as DEPLOYMENTS
from millrace.lake.deployments import DeploymentStore, SlotsInUse
from millrace.lake.store import Position
from millrace.model.contingency import Contingency, ContingencyPlan, rate_text
from millrace.model.decision import Action, Decision, Proposal
from millrace.model.deployment import BY_CONTINGENCY, Deployment, slot_changes
from millrace.model.errors import Conflict
from millrace.model.quiet_hours import quiet_span
from millrace.runtime.arrival_watch import ArrivalWatch, Excess

LOG = logging.getLogger(__name__)
REASON = "contingency"


class Contingencies:
    """Follows the plan for one app from version to version.

    Args:
        app: Name of the app.
        watch: Measures what arrives.
        decisions: Store for the Decision that carries out a line.
        deployments: Store for its version.
        clock: The present (UTC).
        seconds: The same on a monotonic clock, as the watch uses it, seconds.
    """

    def __init__(
        self,
        app: str,
        watch: ArrivalWatch,
        decisions: DecisionStore,
        deployments: DeploymentStore,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app, self._watch = app, watch
        self._decisions, self._deployments = decisions, deployments
        self._clock, self._seconds = clock, seconds
        self._excess: Excess | None = None
        self._settled = ""
        self._blocked: tuple[str, Position] | None = None
        self._told: tuple[str, str] | None = None
        self._read = (0, -1)
        self._evaluated: datetime | None = None

    def step(self, newest: Deployment | None) -> bool:
        """Carry out the line that is due, if any; return whether a version was committed.

        Args:
            newest: The pipeline's newest Deployment.
        """
        plan = None if newest is None or not newest.kept_running else newest.contingencies
        lines = () if plan is None else tuple(line for line in plan.lines if line.app == self._app)
        self._watch.arm(bool(lines))
        if newest is None or plan is None or not lines:
            self._excess = None
            return False
        if self._blocked == (plan.decision_id, self._deployments.lake.position(DEPLOYMENTS)):
            self._excess = None  # no slots were given back; what arrives until then may be processed by then
            return False
        due = self._due(lines)
        if due is None or plan.decision_id == self._settled:
            return False
        if quiet_span(self._clock(), plan.quiet_hours) is not None or self._has_lapsed(newest, plan):
            return False
        return self._carry_out(newest, plan, *due)

    def _has_lapsed(self, newest: Deployment, plan: ContingencyPlan) -> bool:
        """Say whether evaluations have stopped: the pipeline is paused in Airflow, or Airflow is down."""
        position = self._decisions.lake.position(TABLE)
        if position != self._read:  # asked again and again while a line is due
            last = self._decisions.last(newest.pipeline)
            self._read = position
            if last is None or all(proposal.optimizer != REASON for proposal in last.proposals):  # not an agent's own
                self._evaluated = None if last is None else last.time
        return self._evaluated is None or (self._clock() - self._evaluated).total_seconds() > plan.lapses_s

    def _due(self, lines: tuple[Contingency, ...]) -> tuple[Contingency, str] | None:
        """Return the line to carry out and what triggered it; None if nothing did."""
        now_s = self._seconds()
        rates = [line for line in lines if line.above_rows_per_s is not None]
        if rates and (exceeded := self._exceeded(rates, now_s)) is not None:
            return exceeded
        ran_s = self._watch.longest_batch_s(now_s)
        overdue = [line for line in lines if line.above_rows_per_s is None and ran_s > line.for_s]
        return (overdue[-1], f"a batch has been running for {ran_s:.0f} s") if overdue else None

    def _exceeded(self, lines: list[Contingency], now_s: float) -> tuple[Contingency, str] | None:
        first = lines[0]
        above = first.above_rows_per_s or 0.0
        if self._excess is None or self._excess.rate != above:
            self._watch.take()  # rows from before this plan were known when it was made
            self._excess = Excess(above, now_s)
        for arrival in self._watch.take():
            self._excess.add(arrival)
        if not self._excess.exceeds(first.for_s):
            return None
        rate = self._excess.arrival_rows_per_s
        line = [line for line in lines if (line.above_rows_per_s or 0.0) <= max(rate, above)][-1]
        return line, f"{rate_text(rate)} rows/s arrive, more than {rate_text(above)} rows/s"

    def _carry_out(self, newest: Deployment, plan: ContingencyPlan, due: Contingency, what: str) -> bool:
        now, seen = self._clock(), self._deployments.lake.position(DEPLOYMENTS)
        for in_use in self._deployments.attempts():  # another pipeline may raise its slots first
            latest = in_use.latest(newest.pipeline)
            if latest is None or latest.version != newest.version:
                return False  # a newer version exists: it counts
            line, blocked = self._within_quota(newest, plan, due, in_use)
            decision, told = _decision(newest, plan, line, what, blocked, now), (plan.decision_id, blocked)
            if not blocked or told != self._told:
                self._decisions.record(decision)
            if decision.target is None:
                self._blocked, self._told = (plan.decision_id, seen), told
                return False
            self._settled = plan.decision_id
            with suppress(Conflict):
                self._deployments.commit(decision.target, newest.version, in_use)
                LOG.info(decision.sentence)
                return True
            seen = self._deployments.lake.position(DEPLOYMENTS)
        return False

    def _within_quota(
        self, newest: Deployment, plan: ContingencyPlan, line: Contingency, in_use: SlotsInUse
    ) -> tuple[Contingency, str]:
        """Return the line, or as much of it as the quota allows; and a sentence if it allows nothing.

        Rather than give up slots of this app, the apps that it feeds wait for the next evaluation.
        """
        if plan.max_total_slots is None:
            return line, ""
        left = in_use.left(newest.pipeline, plan.max_total_slots)
        lower = [each for each in plan.lines if each.app == self._app and each.slots <= line.slots]
        lower.sort(key=lambda each: -each.slots)
        for each in (line, *(replace(each, others={}) for each in lower)):
            if newest.with_changes(slot_changes(each, newest)).slots <= left:
                return each, ""
        spare = left - (newest.slots - newest.apps[self._app].slots)
        return line, f"No change: the quota of {plan.max_total_slots} slots leaves {spare} for {self._app}."


def _decision(
    newest: Deployment, plan: ContingencyPlan, line: Contingency, what: str, blocked: str, now: datetime
) -> Decision:
    """Return the Decision that carries out a line, or says why the quota does not allow it.

    Args:
        newest: The newest Deployment.
        plan: Its plan.
        line: The line, as far as the quota allows it.
        what: What triggered it.
        blocked: Why the quota allows nothing; empty if it does.
        now: The present (UTC).
    """
    changes = slot_changes(line, newest)
    steps = ", ".join(f"{change.app}: slots {change.before} -> {change.value}" for change in changes)
    sentence = f"{steps}: {what}, as planned by decision {plan.decision_id}."
    # another attempt may get fewer slots: a Decision of its own
    id = new_decision_id(now, newest.pipeline, REASON, plan.decision_id, sentence, blocked)
    content = replace(newest.with_changes(changes), author=BY_CONTINGENCY, decision_id=id, reason=sentence)
    return Decision(
        decision_id=id,
        pipeline=newest.pipeline,
        time=now,
        action=Action.VETO if blocked else Action.APPLY,
        reason_code="quota" if blocked else REASON,
        sentence=f"{sentence} {blocked}".rstrip(),
        base_version=newest.version,
        proposals=(Proposal(REASON, changes, REASON, sentence),),
        target=None if blocked else content,
    )
