"""ContTune as an Optimizer: the controller's loop ([ContTune], Section 3 and Algorithm 1), one look at a time.

The algorithm's loop runs over the looks: every reconfiguration is measured before the next pass. Small follows Big in
the first look in which the job is no longer under-provisioned; without Big it runs while the job is over- or
under-provisioned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from include.model.decision import Memory, Proposal
from include.model.deployment import Deployment
from include.model.signals import Signals
from optimizers.conttune.choice import clamp, decided, held, percent, told
from optimizers.conttune.job import Job
from optimizers.conttune.paper.flows import learned
from optimizers.conttune.paper.look import Look
from optimizers.conttune.paper.memory import BIG, IDLE, Notes, read, write
from optimizers.conttune.paper.options import Options
from optimizers.conttune.paper.phases import big, small
from optimizers.conttune.paper.state import State, backpressured
from optimizers.conttune.paper.stop import idle, rest, taken
from optimizers.conttune.paper.surrogate import fit
from optimizers.conttune.reasons import Reason
from optimizers.conttune.sizing import Sizing
from optimizers.conttune.tuning import Sizings, Stored, propose

NAME = "conttune"

Decided = tuple[Sequence[Sizing], Notes]


class ContTune:
    """Sizes jobs by Big-small and conservative Bayesian optimisation.

    Args:
        options: The paper's parameters and ablations; the literal preset unless told otherwise.
    """

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Say which p each operator should have and why, and what to remember until the next look."""
        return propose(NAME, self._tune, signals, current, memory)

    def model(self, training: Mapping[str, Sequence[float]]) -> Any:
        """Return the scikit-learn estimator of PA(p) for a Proposal's ``training``, as the decision used it.

        Args:
            training: Columns ``parallelism`` and ``processing_ability``.
        """
        return fit(training, self.options.surrogate)

    def _tune(self, signals: Signals, job: Job, stored: Stored) -> Sizings:
        notes = read(stored)
        if self.options.known_arrival_rate:
            throttled = backpressured(job.app.backpressured_ratio or 0.0, self.options)
            notes = replace(notes, ratios=learned(job, notes.ratios, throttled=throttled))
        look = Look(signals, job, notes, self.options)
        found, kept = _big(look) if self.options.uses_big and look.state is State.UNDER else _small(look)
        return found, write(kept)


def _big(look: Look) -> Decided:
    """Lift all operators; the paper's loop ends when the job keeps up, ours also at the bounds."""
    levels, p_max = big(look)
    lifted = [
        told(o, levels[o.name], Reason.BINARY_LIFTING, look.bounds) for o in look.job.sizable if levels[o.name] != o.now
    ]
    if not lifted:
        return [held(look.job, Reason.LIFTING_EXHAUSTED, look.bounds)], look.notes
    return lifted, replace(look.notes, p_max=p_max, phase=BIG)


def _small(look: Look) -> Decided:
    notes, bounds = replace(look.notes, phase=IDLE), look.bounds
    if look.state is State.UNKNOWN:
        return [held(look.job, Reason.STATE_UNKNOWN, bounds)], look.notes
    if look.options.small == "none" or (look.state is State.NORMAL and look.notes.phase != BIG):
        return [held(look.job, _why_stay(look), bounds)], notes
    why = rest(look)
    if why is not None:
        return [held(look.job, why, bounds, slack=percent(look.options.slack))], notes
    choices = small(look)
    if idle(look, choices):
        why = Reason.SLACK_TOO_SMALL if look.state is not State.UNDER else _why_stay(look)
        return [held(look.job, why, bounds, choices, slack=percent(look.options.slack))], notes
    found = decided(look.job, choices, bounds, look.options.decision_thr, _why_stay(look))
    if any(sizing.changes for sizing in found):
        notes = replace(notes, step=taken(look, {c.operator.name: clamp(c.target, bounds) for c in choices}))
    return found, notes


def _why_stay(look: Look) -> Reason:
    """Return why a job stays although nothing keeps it from changing."""
    if look.state is not State.UNDER:
        return Reason.WELL_PROVISIONED
    highest = all(p >= look.bounds.max_slots for p in look.p_now.values())
    return Reason.AT_MAXIMUM if highest else Reason.NO_HIGHER_LEVEL
