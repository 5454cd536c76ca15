"""Reason codes and their messages, one constant per reason, so programs can read messages back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum

from millrace.model.placement import PLACEMENT_FIRST


class Reason(StrEnum):
    """Why a tuner proposes a step or a hold."""

    # steps up
    UNDER_PROVISIONED = "under_provisioned"
    UTILISATION_ABOVE_TARGET = "utilisation_above_target"
    LATENCY_GOAL = "latency_goal"
    BATCH_LIMIT = "batch_limit"
    BATCHES_FULL = "batches_full"
    BURSTS = "bursts"
    BACKLOG_TO_DRAIN = "backlog_to_drain"
    # steps down
    OVER_PROVISIONED = "over_provisioned"
    NEARLY_EMPTY = "nearly_empty"
    # either way
    OUT_OF_BOUNDS = "out_of_bounds"
    # holds: nothing to do
    WELL_PROVISIONED = "well_provisioned"
    DRAINING = "draining"
    WINDOW_HALF_OLD = "window_half_old"
    SLACK_TOO_SMALL = "slack_too_small"
    NO_SAFE_LOWER_LEVEL = "no_safe_lower_level"
    DOES_NOT_PAY = "does_not_pay"
    AT_MINIMUM = "at_minimum"
    # holds: more is needed, but
    AT_MAXIMUM = "at_maximum"
    BATCH_LIMIT_AT_MAXIMUM = "batch_limit_at_maximum"
    BATCHES_FULL_AT_MAXIMUM = "batches_full_at_maximum"
    SOURCE_SPLITS = "source_splits"
    TOO_FEW_TASKS = "too_few_tasks"
    ALL_TASKS_RUN = "all_tasks_run"
    INEFFECTIVE_SCALING = "ineffective_scaling"
    NO_ROOM = "no_room"
    LATENCY_UNATTAINABLE = "latency_unattainable"
    HELD_BY_TRIGGER = "held_by_trigger"
    PLACEMENT_FIRST = PLACEMENT_FIRST
    PARTITIONS_UNKNOWN = "partitions_unknown"
    # holds: less would be enough, but
    CANNOT_BALANCE = "cannot_balance"
    # holds: not enough is known
    NO_APP = "no_app"
    STOPPED = "stopped"
    SETTLING = "settling"
    FIRST_BATCH = "first_batch"
    BAD_SIGNALS = "bad_signals"
    RATE_UNKNOWN = "rate_unknown"
    BACKLOG_UNKNOWN = "backlog_unknown"
    CAPACITY_UNKNOWN = "capacity_unknown"
    LEVEL_NOT_PROVEN = "level_not_proven"
    OPERATOR_VANISHED = "operator_vanished"
    WITH_OTHERS = "with_others"
    BUDGET = "budget"
    BUDGET_UNMEASURED = "budget_unmeasured"


ARRIVES = "{arrives}, and {now} can sustain {ability_now} rows/s"
_THEN = "{then} can sustain {ability} rows/s ({utilisation} % used)."
ENOUGH = "No change needed."
NEARLY_ENOUGH = "That is within the error of the measurement, so nothing changes."
MAXIMUM = "{max_key} allows no more than {high}; raise it to scale up."

MESSAGES: Mapping[Reason, str] = {
    Reason.UNDER_PROVISIONED: f"{ARRIVES}. {_THEN}",
    Reason.UTILISATION_ABOVE_TARGET: "{arrives}, more than {target} % of the {ability_now} rows/s that {now} can "
    f"sustain. {_THEN}",
    Reason.LATENCY_GOAL: "{arrives}, but {now} can sustain only {ability_now} rows/s without rows waiting longer than "
    f"{{max_lag}} s. {_THEN}",
    Reason.BATCH_LIMIT: "{arrives}. With at most {batch_rows} rows per batch, {now} can sustain only {ability_now} "
    f"rows/s; {_THEN}",
    Reason.BURSTS: f"{ARRIVES}, which is too little for the recurring bursts. {_THEN}",
    Reason.BATCHES_FULL: "{arrives}, and {now} had no idle time. Trying {then} to find the true arrival rate.",
    Reason.BACKLOG_TO_DRAIN: f"{ARRIVES}, but {{waiting}} rows wait and {{now}} can {{drains_now}}. {{then}} can "
    "sustain {ability} rows/s and {drains} (goal: {catch_up} s).",
    Reason.OVER_PROVISIONED: f"Only {ARRIVES}. {_THEN}{{pays}}",
    Reason.NEARLY_EMPTY: "{arrives}: batches have had almost no rows for {evaluations} evaluations. With {then}, rows "
    "wait {longest_wait} s at most (goal: {max_lag} s).",
    Reason.OUT_OF_BOUNDS: "The deployment has {now}; allowed are {low} ({min_key}) to {high} ({max_key}). Changing "
    "to {then}, whatever the load.",
    Reason.WELL_PROVISIONED: f"{ARRIVES} ({{utilisation_now}} % used). {{verdict}}",
    Reason.DRAINING: f"{ARRIVES}, but {{waiting}} rows still wait and {{now}} can {{drains_now}}. No scale-down until "
    "the backlog is gone.",
    Reason.WINDOW_HALF_OLD: f"{ARRIVES}, but the arrival rate changed late in the period. Waiting for the next "
    "evaluation to measure the new rate.",
    Reason.SLACK_TOO_SMALL: f"{ARRIVES}. A scale-down would free less than the required {{slack}} %.",
    Reason.NO_SAFE_LOWER_LEVEL: f"{ARRIVES}. Fewer might not keep up.",
    Reason.DOES_NOT_PAY: f"{ARRIVES}. {{lower}} would be enough, but would save only about {{saved}} slot-seconds "
    "until the next rise; scaling down and up again costs {cost}.",
    Reason.AT_MINIMUM: f"{ARRIVES}. Fewer are not allowed ({{min_key}}: {{low}}).",
    Reason.AT_MAXIMUM: f"{ARRIVES}, but {MAXIMUM}",
    Reason.BATCH_LIMIT_AT_MAXIMUM: "{arrives}. With at most {batch_rows} rows per batch, {now} can sustain only "
    f"{{ability_now}} rows/s, but {MAXIMUM}",
    Reason.BATCHES_FULL_AT_MAXIMUM: f"{{arrives}}, and {{now}} had no idle time, but {MAXIMUM}",
    Reason.SOURCE_SPLITS: "Only {ran} of {now} had work, because the source offers too few splits per batch. More "
    "slots cannot help.",
    Reason.TOO_FEW_TASKS: "Only {ran} of {now} had work, because the stages have too few tasks. More slots "
    "cannot help.",
    Reason.ALL_TASKS_RUN: "{arrives}, but {now} already run all {tasks} tasks of the longest stage at once. More slots "
    "cannot help.",
    Reason.INEFFECTIVE_SCALING: f"{ARRIVES}. Beyond {{ceiling}}, more slots were measured to add no throughput.",
    Reason.NO_ROOM: f"{ARRIVES}. More executors were requested; the cluster has not granted them yet.",
    Reason.LATENCY_UNATTAINABLE: f"{ARRIVES}. More slots cannot keep the wait of a row below {{max_lag}} s.",
    Reason.HELD_BY_TRIGGER: f"{ARRIVES}, but full batches wait for the trigger of {{trigger}} s while {{held}} rows "
    "exceed the source's read limit. Raise the limit or shorten the trigger; more slots cannot help.",
    Reason.PLACEMENT_FIRST: "{arrives}, but {now} can sustain only {measured} rows/s now. No slots are added: {cause}. "
    "{now} can then sustain {ability_now} rows/s ({utilisation_now} % used).",
    Reason.PARTITIONS_UNKNOWN: f"{ARRIVES}. No slots are added until state partitions are measured: moving some of "
    "them might be enough.",
    Reason.CANNOT_BALANCE: f"{ARRIVES}. {{lower}} would be enough for such a rate, but {{cause}}.",
    Reason.NO_APP: "{app} is not an app of the deployment. No decision.",
    Reason.STOPPED: "{app} is stopped. No decision.",
    Reason.SETTLING: "{app} is still settling after its last change. No decision until enough batches have run.",
    Reason.FIRST_BATCH: "{app}: the first batch of its driver has been running for {running} s. No decision until it "
    "ends.",
    Reason.BAD_SIGNALS: "{app}: {name} is {value}; allowed: {allowed}. No decision on an invalid figure.",
    Reason.RATE_UNKNOWN: "{app}: the arrival rate is unknown. No decision.",
    Reason.BACKLOG_UNKNOWN: "{app}: the backlog is unknown. No decision.",
    Reason.CAPACITY_UNKNOWN: "{app}: throughput has not been measured yet. No decision.",
    Reason.LEVEL_NOT_PROVEN: f"{ARRIVES}, according to earlier figures. No scale-down to a size smaller than any "
    "measured so far until the present size is measured.",
    Reason.WITH_OTHERS: "{app}: {rate} rows/s have to be processed, and {now} would be too few at {more} % more. It "
    "gets {then} together with the apps that it is connected to.",
    Reason.BUDGET: "{app} needs {wanted} slots and gets {then}: {key} leaves {budget} for this pipeline, which "
    "sustains {share} % of what arrives.",
    Reason.BUDGET_UNMEASURED: "{app} wants {wanted} slots and gets {then}: {key} leaves {budget} for this pipeline. "
    "Not all of its apps are measured yet.",
    Reason.OPERATOR_VANISHED: "{app}: nothing was measured for {name}, which the deployment sizes separately. No "
    "decision.",
}


def message(reason: Reason, details: Mapping[str, str]) -> str:
    """Return the reason as a sentence; ``details`` must hold every field of its constant."""
    return MESSAGES[reason].format_map(details)


def format_number(value: float | None) -> str:
    """Format a figure: whole from 10 up, one decimal below, ``?`` if it is unknown."""
    if value is None or not math.isfinite(value):
        return "?"
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.1f}"


def percent(ratio: float | None) -> str:
    """Format a ratio as a percentage without the sign, ``?`` if it is unknown."""
    return "?" if ratio is None or not math.isfinite(ratio) else format_number(round(100 * ratio))


def count(n: int, noun: str) -> str:
    """Return ``1 slot`` or ``4 slots``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
