"""Reason codes and their messages: one constant a reason, so that a message can be read back by a program too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum


class Reason(StrEnum):
    """Why a tuner proposes what it proposes."""

    # steps up
    BINARY_LIFTING = "binary_lifting"
    UNDER_PROVISIONED = "under_provisioned"
    UTILISATION_ABOVE_TARGET = "utilisation_above_target"
    LATENCY_GOAL = "latency_goal"
    BATCH_LIMIT = "batch_limit"
    BATCHES_FULL = "batches_full"
    BURSTS = "bursts"
    BACKLOG_TO_DRAIN = "backlog_to_drain"
    # steps down
    OVER_PROVISIONED = "over_provisioned"
    # either way
    OUT_OF_BOUNDS = "out_of_bounds"
    # steps of the baselines
    BACKPRESSURE_STARTS_HERE = "backpressure_starts_here"
    IDLE_WITHOUT_BACKPRESSURE = "idle_without_backpressure"
    RANDOM_TRIAL = "random_trial"
    SADDLE_POINT = "saddle_point"
    # holds: nothing to do
    WELL_PROVISIONED = "well_provisioned"
    DRAINING = "draining"
    WINDOW_HALF_OLD = "window_half_old"
    SLACK_TOO_SMALL = "slack_too_small"
    NO_SAFE_LOWER_LEVEL = "no_safe_lower_level"
    DOES_NOT_PAY = "does_not_pay"
    AT_MINIMUM = "at_minimum"
    BELOW_DECISION_THRESHOLD = "below_decision_threshold"
    STEP_SUFFICED = "step_sufficed"
    STEP_FAILED_BEFORE = "step_failed_before"
    # holds: more would be needed, but
    AT_MAXIMUM = "at_maximum"
    BATCH_LIMIT_AT_MAXIMUM = "batch_limit_at_maximum"
    BATCHES_FULL_AT_MAXIMUM = "batches_full_at_maximum"
    LIFTING_EXHAUSTED = "lifting_exhausted"
    NO_HIGHER_LEVEL = "no_higher_level"
    SOURCE_SPLITS = "source_splits"
    TOO_FEW_TASKS = "too_few_tasks"
    INEFFECTIVE_SCALING = "ineffective_scaling"
    NO_ROOM = "no_room"
    LATENCY_UNATTAINABLE = "latency_unattainable"
    HELD_BY_TRIGGER = "held_by_trigger"
    # holds: not enough is known
    NO_APP = "no_app"
    STOPPED = "stopped"
    SETTLING = "settling"
    BAD_SIGNALS = "bad_signals"
    RATE_UNKNOWN = "rate_unknown"
    BACKLOG_UNKNOWN = "backlog_unknown"
    CAPACITY_UNKNOWN = "capacity_unknown"
    LEVEL_NOT_PROVEN = "level_not_proven"
    STATE_UNKNOWN = "state_unknown"
    OPERATOR_VANISHED = "operator_vanished"


_ARRIVES = "{arrives} and {now} can sustain {ability_now} rows/s"
_THEN = "{then} can sustain {ability} rows/s ({utilisation} % used)."

MESSAGES: Mapping[Reason, str] = {
    Reason.BINARY_LIFTING: "{now} cannot keep up, and how much arrives shows only when they can: {then} to end the "
    "backpressure.",
    Reason.UNDER_PROVISIONED: f"{_ARRIVES}: {_THEN}",
    Reason.UTILISATION_ABOVE_TARGET: f"{_ARRIVES}, of which {{target}} % are planned for: {_THEN}",
    Reason.LATENCY_GOAL: f"{_ARRIVES} if no row is to wait over {{max_lag}} s: {_THEN}",
    Reason.BATCH_LIMIT: "{arrives}, and with at most {batch_rows} rows a batch {now} can sustain only "
    f"{{ability_now}} rows/s: {_THEN}",
    Reason.BURSTS: f"{_ARRIVES}, too few for a burst: {_THEN}",
    Reason.BATCHES_FULL: "{arrives}, and {now} are never idle: {then}, until it shows how many do.",
    Reason.BACKLOG_TO_DRAIN: f"{_ARRIVES}, but {{waiting}} rows wait, and {{now}} can {{drains_now}}: {{then}} can "
    "sustain {ability} rows/s and {drains} (the goal is {catch_up} s).",
    Reason.OVER_PROVISIONED: f"Only {_ARRIVES}: {_THEN}{{pays}}",
    Reason.OUT_OF_BOUNDS: "{now}, but {low} to {high} are allowed: {then}, whatever arrives.",
    Reason.BACKPRESSURE_STARTS_HERE: "{now} hold up for {pressed} % of the time what feeds them: {then}.",
    Reason.IDLE_WITHOUT_BACKPRESSURE: "{now} are busy for {busy} % of the time and hold nothing up: {then}.",
    Reason.RANDOM_TRIAL: f"{_ARRIVES}, which is not the least that suffices: {{then}} as a random trial.",
    Reason.SADDLE_POINT: f"{_ARRIVES}: {{then}} may process {{aim}} rows/s, the rate and the price of what was missed.",
    Reason.WELL_PROVISIONED: f"{_ARRIVES} ({{utilisation_now}} % used): nothing to change.",
    Reason.DRAINING: f"{_ARRIVES}, but {{waiting}} rows still wait, and {{now}} can {{drains_now}}: no step "
    "down before that.",
    Reason.WINDOW_HALF_OLD: f"{_ARRIVES} on average, but the rate changed too late in the period to tell what "
    "arrives now: the next will tell.",
    Reason.SLACK_TOO_SMALL: f"{_ARRIVES}: less than {{slack}} % of it is unused, too little for a step down.",
    Reason.NO_SAFE_LOWER_LEVEL: f"{_ARRIVES}: no lower level is sure to suffice.",
    Reason.DOES_NOT_PAY: f"{_ARRIVES}: {{lower}} would be enough, but that saves about {{saved}} slot-seconds "
    "until the next rise, and a change there and back costs {cost}.",
    Reason.AT_MINIMUM: f"{_ARRIVES}: fewer are not allowed.",
    Reason.BELOW_DECISION_THRESHOLD: f"{_ARRIVES}: a change of less than {{threshold}} % of them is not worth it.",
    Reason.STEP_SUFFICED: f"{_ARRIVES}: the last step was enough, and the load is still what it was made for.",
    Reason.STEP_FAILED_BEFORE: f"{_ARRIVES}: another step failed at this load before.",
    Reason.AT_MAXIMUM: f"{_ARRIVES}: more are not allowed.",
    Reason.BATCH_LIMIT_AT_MAXIMUM: "{arrives}, and with at most {batch_rows} rows a batch {now} can sustain "
    "only {ability_now} rows/s; more are not allowed.",
    Reason.BATCHES_FULL_AT_MAXIMUM: "{arrives}, and {now} are never idle: more are not allowed.",
    Reason.NO_HIGHER_LEVEL: f"{_ARRIVES}: they are busy, but the model suggests no higher level.",
    Reason.LIFTING_EXHAUSTED: "{now} cannot keep up, and more are not allowed.",
    Reason.SOURCE_SPLITS: "Only {ran} of {now} have work, because the source offers too few splits a batch: more slots "
    "cannot help.",
    Reason.TOO_FEW_TASKS: "Only {ran} of {now} have work, because the stages have too few tasks: more slots "
    "cannot help.",
    Reason.INEFFECTIVE_SCALING: f"{_ARRIVES}: beyond {{ceiling}} more slots were measured to bring nothing.",
    Reason.NO_ROOM: f"{_ARRIVES}: more are asked for already.",
    Reason.LATENCY_UNATTAINABLE: f"{_ARRIVES}: slots cannot bring the wait of a row below {{max_lag}} s.",
    Reason.HELD_BY_TRIGGER: f"{_ARRIVES}, but it waits for its trigger every {{trigger}} s while {{held}} rows wait "
    "that its batches may not read: raise the source's read limit or shorten the trigger, as slots cannot help.",
    Reason.NO_APP: "{app} is not an app of the deployment: nothing to decide.",
    Reason.STOPPED: "{app} is not meant to run: nothing to decide.",
    Reason.SETTLING: "{app} has not settled since its last change: its figures would mislead.",
    Reason.BAD_SIGNALS: "{app}: {name} is {value}, allowed is {allowed}: no decision on such figures.",
    Reason.RATE_UNKNOWN: "{app}: it is not known how many rows arrive: no decision.",
    Reason.BACKLOG_UNKNOWN: "{app}: it is not known how many rows wait: no decision.",
    Reason.CAPACITY_UNKNOWN: "{app}: no processing ability has been measured yet: no decision.",
    Reason.LEVEL_NOT_PROVEN: f"{_ARRIVES} by earlier figures: no step down to a level below all measured ones before "
    "the present one is measured.",
    Reason.STATE_UNKNOWN: "{app}: it is not known how busy it is or whether it keeps up: no decision.",
    Reason.OPERATOR_VANISHED: "{app}: the deployment sizes {name}, and nothing was measured of it: no decision.",
}


def message(reason: Reason, details: Mapping[str, str]) -> str:
    """Return the reason for a person; ``details`` must hold every field of its constant."""
    return MESSAGES[reason].format_map(details)


def number(value: float | None) -> str:
    """Return a figure as people read it, whole from 10 up, one decimal below; ``?`` if it is not known."""
    if value is None or not math.isfinite(value):
        return "?"
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.1f}"


def percent(ratio: float | None) -> str:
    """Return a ratio in percent, without the sign; ``?`` if it is not known."""
    return "?" if ratio is None or not math.isfinite(ratio) else number(round(100 * ratio))


def count(n: int, noun: str) -> str:
    """Return ``1 slot`` or ``4 slots``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
