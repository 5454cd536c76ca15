"""Reason codes of published tuners and their messages, as in :mod:`millrace.optimizers.conttune.messages`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from millrace.optimizers.conttune import messages as shared
from millrace.optimizers.conttune.messages import ARRIVES, MAXIMUM, Reason


class RivalReason(StrEnum):
    """Why a published tuner proposes a step or a hold that ``flow`` never does."""

    # steps
    BINARY_LIFTING = "binary_lifting"
    BACKPRESSURE_STARTS_HERE = "backpressure_starts_here"
    IDLE_WITHOUT_BACKPRESSURE = "idle_without_backpressure"
    RANDOM_TRIAL = "random_trial"
    SADDLE_POINT = "saddle_point"
    # holds: nothing to do
    BELOW_DECISION_THRESHOLD = "below_decision_threshold"
    STEP_SUFFICED = "step_sufficed"
    STEP_FAILED_BEFORE = "step_failed_before"
    # holds: more is needed, but
    LIFTING_EXHAUSTED = "lifting_exhausted"
    NO_HIGHER_LEVEL = "no_higher_level"
    # holds: not enough is known
    STATE_UNKNOWN = "state_unknown"


AnyReason = Reason | RivalReason

MESSAGES: Mapping[RivalReason, str] = {
    RivalReason.BINARY_LIFTING: "{now} cannot keep up, and backpressure hides the arrival rate. Trying {then}.",
    RivalReason.BACKPRESSURE_STARTS_HERE: "{now} backpressured the upstream {pressed} % of the time. Changing to "
    "{then}.",
    RivalReason.IDLE_WITHOUT_BACKPRESSURE: "{now} had no backpressure and only {busy} % busy time. Changing to {then}.",
    RivalReason.RANDOM_TRIAL: f"{ARRIVES}. The smallest size that is enough is not known yet; trying {{then}}, chosen "
    "at random.",
    RivalReason.SADDLE_POINT: f"{ARRIVES}. Changing to {{then}} to process {{aim}} rows/s: the arrival rate plus a "
    "surcharge for the rows missed so far.",
    RivalReason.BELOW_DECISION_THRESHOLD: f"{ARRIVES}. The proposed change of size is less than {{threshold}} %, which "
    "is too small to act on.",
    RivalReason.STEP_SUFFICED: f"{ARRIVES}. The last step was enough, and the load has not changed since.",
    RivalReason.STEP_FAILED_BEFORE: f"{ARRIVES}. Not repeating a step that failed at this load before.",
    RivalReason.LIFTING_EXHAUSTED: f"{{now}} cannot keep up, but {MAXIMUM}",
    RivalReason.NO_HIGHER_LEVEL: f"{ARRIVES}. They are busy, but the model suggests no larger size.",
    RivalReason.STATE_UNKNOWN: "{app}: the metrics do not show how busy it is or whether it keeps up. No decision.",
}


def message(reason: AnyReason, details: Mapping[str, str]) -> str:
    """Return the reason as a sentence; ``details`` must hold every field of its constant."""
    if isinstance(reason, Reason):
        return shared.message(reason, details)
    return MESSAGES[reason].format_map(details)
