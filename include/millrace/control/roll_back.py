"""Undo a change that Millrace made and that missed its prediction, within the spec's window.

Three things count as misses: freed slots that are missing now, slots, larger batches or a placement that gained too
little, and drivers or executors that die. Nothing is undone if that could make things worse: only what the pipeline had
shown to be as good before comes back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from millrace.control.change_results import THROUGHPUT, dead_drivers, since_s
from millrace.control.guard_context import GuardContext
from millrace.control.proposals import VERIFICATION, Proposals
from millrace.drivers.failure_history import AUTHOR as RECONCILER
from millrace.model.arrival import ArrivalBasis, arrival_phrase
from millrace.model.decision import Action, Decision, Outcome, Proposal, Reconfiguration
from millrace.model.deployment import BATCH_LIMIT, LIVE, PLACEMENT, SLOTS, Change
from millrace.model.gain import SUSTAINABLE, Gain
from millrace.model.placement import STATEFUL_BATCH, PartitionLoads, batch_growth, other_keys_are_hot
from millrace.model.signals import AppSignals, Signals
from millrace.model.spec import PERSON, SPEC
from millrace.model.verification_spec import Verification

HELD_FROM, HELD_TO = "held_from_rows_per_s", "held_to_rows_per_s"
"""Keys of a roll-back's Decision for the range of arrival in which the change is not tried again."""
GAIN_MISSED = "gain_missed"
DIED = "died_after_change"


@dataclass(frozen=True)
class Trial:
    """A change in its window, and the evidence to judge it by.

    Attributes:
        change: The Reconfiguration.
        decision: The Decision behind it.
        steps: The steps that can be undone.
        before: Reconfigurations of the app in as long as the window before it.
        after: Reconfigurations of the app since: its driver died, or was restarted.
        signals: Present signals; None if they cannot be trusted, or are of another version.
    """

    change: Reconfiguration
    decision: Decision
    steps: tuple[Change, ...]
    before: Sequence[Reconfiguration]
    after: Sequence[Reconfiguration]
    signals: Signals | None

    @property
    def then(self) -> AppSignals | None:
        """What was measured of the app when the change was decided."""
        return self.decision.signals.app(self.change.app) if self.decision.signals else None

    @property
    def now(self) -> AppSignals | None:
        """What is measured of the app now."""
        return self.signals.app(self.change.app) if self.signals else None

    @property
    def settled(self) -> bool:
        """Whether figures before and after the change can be compared."""
        both = ((self.signals, self.now), (self.decision.signals, self.then))
        return all(signals is not None and app in signals.settled for signals, app in both)

    @property
    def slots(self) -> Change | None:
        """The step of the app's slots."""
        return next((step for step in self.steps if step.field == SLOTS), None)

    @property
    def batches(self) -> Sequence[Change]:
        """The steps of limits of batches."""
        return [step for step in self.steps if step.field == BATCH_LIMIT]

    def predicted(self, name: str) -> float | None:
        """Return a predicted figure of the app; None if there is none."""
        return self.decision.predicted_of(self.change.app, name)


@dataclass(frozen=True)
class Miss:
    """What a change missed: a reason code, and a sentence with the prediction and the result."""

    reason: str
    sentence: str


def undo(limits: Verification, guards: GuardContext, signals: Signals | None) -> Proposals | None:
    """Return the only proposal, which undoes the last change; None if there is nothing to undo.

    Args:
        limits: The spec's bounds.
        guards: The history, and the newest Deployment.
        signals: Present signals; None if there are none, or they are not sound.
    """
    limits = limits.with_trigger(guards.trigger_s)
    trials = (_trial(limits, guards, change, decision, signals) for change, decision in guards.decided)
    for trial in trials:
        miss = None if trial is None else _miss(trial, limits)
        if trial is not None and miss is not None:
            return _proposals(trial, miss, limits, guards)
    return None


def _trial(
    limits: Verification, guards: GuardContext, change: Reconfiguration, decision: Decision, signals: Signals | None
) -> Trial | None:
    """Return a change that may be judged: Millrace's own, in its window, with no other change since."""
    by = {proposal.optimizer for proposal in decision.proposals if proposal.changes}
    own = decision.action in (Action.APPLY, Action.AWAIT) and not by & {PERSON, SPEC, VERIFICATION}
    if (
        not own
        or change.outcome is not Outcome.READY
        or change.ended is None
        or since_s(guards.now, change.ended) >= limits.window_s
    ):
        return None
    history = [entry for entry in guards.history if entry.app == change.app]
    at = history.index(change)
    after, begin = history[:at], change.started - timedelta(seconds=limits.window_s)
    before = [entry for entry in history[at + 1 :] if entry.started > begin]
    own_steps = (step for step in decision.changes if step.app == change.app)
    steps = tuple(step for step in own_steps if step.field not in LIVE or step.field == PLACEMENT)
    # the reconciler restores a single app that failed to start; what else came with it still has to prove itself
    decided = guards.current.decision_id is not None or guards.current.author == RECONCILER
    in_force = decided and all(guards.current.value(step) == step.value for step in steps)
    if not steps or not in_force or any(entry.from_version != entry.to_version for entry in after):
        return None
    measured = signals if signals is not None and change.shows_in(signals) else None
    return Trial(change, decision, steps, before, after, measured)


def _miss(trial: Trial, limits: Verification) -> Miss | None:
    missed = _deaths(trial, limits) or _lag(trial) or _little_gain(trial, limits)
    return missed or _larger_in_vain(trial, limits) or _placed_in_vain(trial, limits)


def _deaths(trial: Trial, limits: Verification) -> Miss | None:
    """Return the deaths since the change, if there were none before; executors' memory deaths are healed elsewhere."""
    now, then = trial.now, trial.then
    executors = now.executor_deaths if now and not (then and then.executor_deaths) else 0
    drivers = 0 if dead_drivers(trial.before) else len(dead_drivers(trial.after))
    number, who = max((drivers, "drivers"), (executors, "executors"))
    if number < limits.deaths:
        return None
    return Miss(DIED, f"{number} {who} died since {_told(trial)} at {_clock(trial.change.ended)}, and none before")


def _lag(trial: Trial) -> Miss | None:
    """Return the lag that freed slots have caused, if no more arrives than they were planned for."""
    now, then, step, signals = trial.now, trial.then, trial.slots, trial.signals
    if now is None or then is None or signals is None or not trial.settled or step is None or step.value > step.before:
        return None
    goal, lag, before = signals.objective.with_trigger(now.trigger_s).max_lag_s, lag_s(now), lag_s(then)
    if lag is None or before is None or before > goal or lag <= goal:
        return None
    arrives = now.arrival_rows_per_s or 0.0
    planned = signals.objective.target_utilisation * (trial.predicted(THROUGHPUT) or 0.0)
    planned = max(planned, then.arrival_rows_per_s or 0.0)
    if max(arrives, now.arrival_recent_rows_per_s or 0.0) > planned:
        return None
    arrival = arrival_phrase(now.arrival_basis, f"{arrives:,.0f}", signals.period_of(now))
    trigger = ", twice the trigger interval" if goal == 2 * now.trigger_s else ""
    came = f"{arrival}, and rows wait {lag:.0f} s (goal: {goal:g} s{trigger})"
    return Miss("lag_goal_missed", f"{_told(trial)} should have been enough for {planned:,.0f} rows/s, but {came}")


def _little_gain(trial: Trial, limits: Verification) -> Miss | None:
    """Return the gain that more slots did not bring, if as many as before can do as much."""
    now, then, step = trial.now, trial.then, trial.slots
    if now is None or then is None or step is None or not trial.settled:
        return None
    before, after, predicted = then.capacity, now.capacity, trial.predicted(THROUGHPUT)
    if step.value < step.before or now.slots != step.value or predicted is None or before is None or after is None:
        return None
    if (before.parallelism, after.parallelism) != (then.parallelism, now.parallelism):
        return None
    doubt = math.hypot(before.rows_per_s_error, after.rows_per_s_error)
    gain = Gain(predicted - before.rows_per_s, after.rows_per_s - before.rows_per_s, doubt)
    suffices_alone = before.rows_per_s < (now.arrival_rows_per_s or 0.0) <= after.rows_per_s
    if not gain.missed(limits.least_gain) or suffices_alone:
        return None
    came = f"should have added {gain.promised:,.0f} rows/s, but added {gain.came:,.0f} +- {gain.doubt:,.0f}"
    return Miss(GAIN_MISSED, f"{_told(trial)} {came}; {_slots(step.before)} can do as much")


def _larger_in_vain(trial: Trial, limits: Verification) -> Miss | None:
    """Return the gain that larger batches did not bring: rows that cost more in large batches cost less in small."""
    now, then, predicted, signals = trial.now, trial.then, trial.predicted(SUSTAINABLE), trial.signals
    if now is None or then is None or signals is None or predicted is None or not trial.batches or not trial.settled:
        return None
    before, after = then.sustainable(signals.objective), now.sustainable(signals.objective)
    if now.slots != then.slots or before is None or after is None or now.capacity is None or then.capacity is None:
        return None
    errors = (app.rows_per_s_error / app.rows_per_s for app in (then.capacity, now.capacity))
    gain = Gain(predicted - before, after - before, max(before, after) * math.hypot(*errors))
    if not gain.missed(limits.least_gain) or before < (now.arrival_rows_per_s or 0.0) <= after:
        return None
    came = f"should have added {gain.promised:,.0f} rows/s, but added {gain.came:,.0f} +- {gain.doubt:,.0f}"
    return Miss(GAIN_MISSED, f"{_told(trial)} {came}")


def _placed_in_vain(trial: Trial, limits: Verification) -> Miss | None:
    """Return the time that a change of placement alone did not save, at about the same load."""
    now, then, ended = trial.now, trial.then, trial.change.ended
    if now is None or then is None or ended is None or any(step.field != PLACEMENT for step in trial.steps):
        return None
    after, before = (signals and signals.partition_loads for signals in (trial.signals, trial.decision.signals))
    app = trial.decision.target.apps[trial.change.app] if trial.decision.target else None
    predicted = trial.decision.predicted.get(STATEFUL_BATCH)
    if not trial.settled or not after or not before or predicted is None or app is None or app.executor is None:
        return None
    load, former_load = now.arrival_rows_per_s, then.arrival_rows_per_s
    if after.since < ended or load is None or not former_load or abs(load / former_load - 1) > limits.load_change:
        return None
    if _other_hot_keys(before, after):
        return None
    cores = app.slots_per_executor
    growth = batch_growth(before.rows, after.rows)
    was_s, is_s, predicted = before.stateful_batch_s(cores) * growth, after.stateful_batch_s(cores), predicted * growth
    if not Gain(was_s - predicted, was_s - is_s, math.hypot(_error_s(before), _error_s(after))).missed(
        limits.least_gain
    ):
        return None
    return Miss(
        GAIN_MISSED,
        f"{_told(trial)} should have shortened the stateful part of a batch from {was_s:.1f} to "
        f"{predicted:.1f} s, but it takes {is_s:.1f} s",
    )


def lag_s(app: AppSignals) -> float | None:
    """Return how long the waiting rows have been there, seconds; None if the source does not report it.

    Rows that wait because of Millrace's own restart do not count.
    """
    arrival, waiting = app.arrival_rows_per_s, app.backlog_rows
    if app.arrival_basis is ArrivalBasis.AT_LEAST or waiting is None or not arrival:
        return None
    return max(0, waiting - (app.restart_lag_rows or 0)) / arrival


def _proposals(trial: Trial, miss: Miss, limits: Verification, guards: GuardContext) -> Proposals:
    changes = tuple(replace(step, before=step.value, value=step.before) for step in trial.steps)
    then, now = trial.then, trial.now
    predicted: dict[str, float] = {}
    if then is not None and then.capacity is not None:
        predicted[THROUGHPUT] = then.capacity.rows_per_s
    rates = [app.arrival_rows_per_s for app in (then, now) if app is not None and app.arrival_rows_per_s is not None]
    if rates:
        predicted |= {
            HELD_FROM: min(rates) * max(0.0, 1 - limits.load_change),
            HELD_TO: max(rates) * (1 + limits.load_change),
        }
    proposal = Proposal(VERIFICATION, changes, miss.reason, miss.sentence, predicted)
    return Proposals(guards.current.with_changes(changes), (proposal,), changes, predicted)


def _slots(number: float) -> str:
    return f"{number:g} slot{'s' * (number != 1)}"


def _told(trial: Trial) -> str:
    """Describe the change."""
    step = trial.slots
    if step is not None:
        return f"the step from {step.before:g} to {step.value:g} slots"
    if trial.batches:
        return "the step of " + ", ".join(f"{s.name} from {s.before:,} to {s.value:,}" for s in trial.batches)
    fields = sorted({step.field for step in trial.steps})
    return f"the change of {', '.join(fields)}"


def _other_hot_keys(before: PartitionLoads, after: PartitionLoads) -> bool:
    """Return whether so much load has moved to other keys that a placement's saving cannot be separated from it."""
    former = dict(zip(zip(before.operator, before.partition, strict=True), before.busy_s, strict=True))
    present = zip(after.operator, after.partition, strict=True)
    return other_keys_are_hot([former.get(key, 0.0) for key in present], after.busy_s)


def _error_s(groups: PartitionLoads) -> float:
    return math.hypot(*groups.busy_error_s)


def _clock(time: datetime | None) -> str:
    return "" if time is None else f"{time.astimezone(UTC):%H:%M:%S} UTC"
