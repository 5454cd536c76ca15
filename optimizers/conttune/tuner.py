"""ContTune as an Optimizer: the controller's loop ([ContTune], Section 3 and Algorithm 1), one look at a time.

An app is tuned as one operator today. What decides on one operator (:mod:`.look`, :mod:`.phases`, :mod:`.rules`) knows
nothing of that: for a DAG of operators there is a look for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from include.contracts.decision import Memory, Proposal
from include.contracts.deployment import Change, Deployment
from include.contracts.signals import AppSignals, Signals
from optimizers.conttune import inputs
from optimizers.conttune import look as looks
from optimizers.conttune.look import Look
from optimizers.conttune.memory import BIG, IDLE, Notes, read, write
from optimizers.conttune.options import Options
from optimizers.conttune.phases import big, small
from optimizers.conttune.reasons import Reason, sentence
from optimizers.conttune.rules import judge, why_not_lifted, why_stay
from optimizers.conttune.state import State
from optimizers.conttune.surrogate import fit
from optimizers.conttune.verdict import Verdict, verdict, why_up

NAME = "conttune"


class ContTune:
    """Sizes apps by Big-small and conservative Bayesian optimisation.

    Args:
        options: The paper's parameters, and which corrections of it are on.
    """

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Say how many slots each app should have and why, and what to remember until the next look."""
        notes = read(memory)
        verdicts = [self._tune(signals, app, current, notes.get(app.app, Notes())) for app in signals.apps]
        kept = {**notes, **{v.operator: v.notes for v in verdicts}}
        return _proposal(verdicts), write(kept)

    def model(self, training: Mapping[str, Sequence[float]]) -> Any:
        """Return the scikit-learn estimator of PA(p) for a Proposal's ``training``, as the decision used it.

        Args:
            training: Columns ``parallelism`` and ``processing_ability``, optionally ``noise``.
        """
        return fit(training, self.options).estimator

    def _tune(self, signals: Signals, app: AppSignals, current: Deployment, notes: Notes) -> Verdict:
        stop = inputs.problem(signals, app, current)
        if stop is not None:
            reason, words = stop
            if reason is Reason.SETTLING:  # its rate is true all the same
                notes = replace(notes, rate=inputs.rate(app, self.options))
            return Verdict(app.app, app.slots, app.slots, reason, sentence(reason, {"app": app.app, **words}), notes)
        look = looks.look(signals, app, notes, self.options)
        missing = inputs.unknown(app, self.options)
        if missing is not None:
            return verdict(look, look.now, missing, look.notes)
        allowed = min(max(look.now, signals.bounds.min_slots), signals.bounds.max_slots)
        if allowed != look.now:
            return verdict(look, allowed, Reason.OUT_OF_BOUNDS, look.notes)
        found = _big(look) if self.options.uses_big and look.state is State.UNDER else _small(look)
        waited = found.reason is Reason.WINDOW_HALF_OLD
        return replace(found, notes=replace(found.notes, rate=look.demand.rate, waited=waited))


def _big(look: Look) -> Verdict:
    target, p_max = big(look)
    why = why_not_lifted(look, target)
    if why is not None:
        return verdict(look, look.now, why, look.notes)
    return verdict(look, target, Reason.BINARY_LIFTING, replace(look.notes, p_max=p_max, phase=BIG))


def _small(look: Look) -> Verdict:
    ended = replace(look.notes, phase=IDLE)
    if not look.observed:
        return verdict(look, look.now, Reason.CAPACITY_UNKNOWN, look.notes)
    if look.state is State.UNKNOWN:
        return verdict(look, look.now, Reason.STATE_UNKNOWN, look.notes)
    if look.options.small == "none" or (look.state is State.NORMAL and look.notes.phase != BIG):
        return verdict(look, look.now, why_stay(look), ended)
    target, why = judge(look, small(look).parallelism)
    if why is Reason.WINDOW_HALF_OLD:  # the tuning goes on
        ended = look.notes
    if why is None:
        why = why_up(look) if target > look.now else Reason.OVER_PROVISIONED
    return verdict(look, target, why, ended)


def _proposal(verdicts: Sequence[Verdict]) -> Proposal:
    """Return all verdicts as one proposal, with the model of the first app that changes, or else of the first."""
    if not verdicts:
        return Proposal(NAME, (), "no_signals", "No app was measured: nothing to decide.")
    changing = [v for v in verdicts if v.target != v.before]
    lead = (changing or list(verdicts))[0]
    told = changing or verdicts
    return Proposal(
        optimizer=NAME,
        changes=tuple(Change(v.operator, "slots", v.before, v.target) for v in changing),
        reason_code=lead.reason.value,
        sentence=lead.sentence if len(told) == 1 else " ".join(f"{v.operator}: {v.sentence}" for v in told),
        predicted=lead.predicted,
        curve=lead.curve,
        training=lead.training,
    )
