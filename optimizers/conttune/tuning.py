"""What the paper's tuners and the baselines do alike in every look; how they decide on a job comes as a function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from include.model.decision import Memory, Proposal
from include.model.deployment import Deployment
from include.model.signals import AppSignals, Signals
from optimizers.conttune import inputs
from optimizers.conttune.choice import clamp, told
from optimizers.conttune.job import Job, job, whole
from optimizers.conttune.reasons import Reason, sentence
from optimizers.conttune.sizing import Sizing, proposal
from optimizers.conttune.stored import mapping

Stored = Mapping[str, Any]
"""What is remembered of one app, a JSON value; anything may stand in it."""

Sizings = tuple[Sequence[Sizing], Stored]


class Tune(Protocol):
    """How a tuner decides on one job that nothing stands in the way of."""

    def __call__(self, signals: Signals, job: Job, stored: Stored) -> Sizings:
        """Return what is wanted for the job, and what to remember of it."""
        ...


def propose(
    name: str, tune: Tune, signals: Signals, current: Deployment, memory: Memory
) -> tuple[Proposal, Mapping[str, Any]]:
    """Return a tuner's proposal for all apps, and its new memory; an app that was not measured stays remembered.

    Args:
        name: The tuner's registry name.
        tune: How it decides on one job.
        signals: The period.
        current: The Deployment that runs.
        memory: What the tuner returned last.
    """
    kept = {app: mapping(stored) for app, stored in mapping(memory.get("apps")).items()}
    sizings: list[Sizing] = []
    for app in signals.apps:
        found, kept[app.app] = _app(tune, signals, app, current, kept.get(app.app, {}))
        sizings.extend(found)
    return proposal(name, sizings), {"apps": kept}


def _app(tune: Tune, signals: Signals, app: AppSignals, current: Deployment, stored: Stored) -> Sizings:
    stop = inputs.problem(signals, app, current)
    if stop is not None:
        reason, words = stop
        text = sentence(reason, {"app": app.app, **words})
        return [Sizing(whole(app), app.slots, reason.value, text)], stored
    seen = job(app, current)
    allowed = [(o, clamp(o.now or 0, signals.bounds)) for o in seen.sizable]
    outside = [told(o, p, Reason.OUT_OF_BOUNDS, signals.bounds) for o, p in allowed if p != o.now]
    if outside:
        return outside, stored
    return tune(signals, seen, stored)
