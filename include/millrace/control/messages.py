"""Describe Decisions: why nothing was decided, or what changes and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from millrace.control.change_results import THROUGHPUT
from millrace.control.evaluation import GateResult, Hold, Request
from millrace.control.proposals import FAILED, Proposals, acts
from millrace.drivers import driver_log
from millrace.lake.reconfigurations import BROKEN
from millrace.model.arrival import arrival_phrase
from millrace.model.decision import Action, Decision, GuardOutcome, Outcome, Reconfiguration, predicted_of
from millrace.model.deployment import (
    INGEST,
    JOIN_FIELDS,
    LIVE,
    NOWHERE,
    PARTITION_MAP,
    PLACEMENT,
    Change,
    Deployment,
    node_name,
)
from millrace.model.failure import in_sentence, reason
from millrace.model.placement import DRAINING, PLACEMENT_FIRST
from millrace.model.signals import AppSignals, Signals

INSTEAD_OF_SLOTS = (PLACEMENT_FIRST, DRAINING)
"""Reason codes with which a tuner leaves slots as they are because state partitions move."""
LEAD = {
    Action.APPLY: "",
    Action.AWAIT: "Waiting for approval: ",
    Action.ADVISE: "Advice only: ",
    Action.VETO: "Not done: ",
    Action.ROLL_BACK: "Rolled back: ",
}
HOT_SHARE = 0.5
"""Smallest share of the waiting rows at which a message names their partition."""
UNREADABLE = "unreadable_file"
NAMED_FILES = 3
"""Most files that a message names."""
TABLE_REPLACED = "The telemetry table was recreated since the last evaluation. Evaluation starts from its newest rows."
NEXT_RUN = "The job has finished, so this applies to its next run."
REJECTED = "rejected"
NOTHING_MEASURED = Hold("no_signals", "Nothing was measured.")


def not_launched(pipeline: str) -> Hold:
    """Hold before the first launch."""
    return Hold("not_launched", f"{pipeline} has not been launched; trigger launch_{pipeline} first.")


def stopped(pipeline: str) -> Hold:
    """Hold while a person wants the pipeline stopped."""
    return Hold("stopped", f"{pipeline} is stopped; trigger launch_{pipeline} to start it.")


def detached(pipeline: str) -> Hold:
    """Hold while a pipeline's job runs without Millrace."""
    return Hold("detached", f"{pipeline} is detached; run ./millrace attach {pipeline} to evaluate it again.")


def driver_failed(last: Reconfiguration) -> Hold:
    """Hold while no driver runs: the last one failed and is not restarted."""
    what = "keeps failing" if last.outcome is Outcome.CIRCUIT_OPEN else "failed"
    message = f"{last.app} does not run: its driver {what}: {in_sentence(last.error)}.{log_of(last)}"
    if last.outcome is Outcome.CIRCUIT_OPEN:
        message += f" Fix the cause, then run ./millrace trigger {last.pipeline}."
    return Hold(BROKEN[last.outcome], message)


def log_of(change: Reconfiguration) -> str:
    """Return a sentence with the path of the driver's log; empty for a change without a driver."""
    if change.generation is None:
        return ""
    log = driver_log.path(Path("logs", "drivers"), change.pipeline, change.app, change.generation)
    return f" Log: {log} in MILLRACE_HOME."


def not_running_yet(wanted: int, measured: int) -> Hold:
    """Hold until the newest version is measured."""
    message = f"Version {wanted} is not measured yet: telemetry is still from version {measured}."
    return Hold("not_running_yet", message)


def bad_telemetry(gate: GateResult) -> Hold:
    """Hold on telemetry that the quality gate refused."""
    return Hold("data_quality", f"No change on bad telemetry: {gate.sentence}.")


def unreadable(files: Sequence[str], gate: GateResult) -> Hold:
    """Hold once on unreadable files; ``gate`` is the quality gate's verdict on the rest."""
    more = f" and {len(files) - NAMED_FILES} more" if len(files) > NAMED_FILES else ""
    names = f"{', '.join(files[:NAMED_FILES])}{more}"
    message = f"No change: {names} cannot be read. Later evaluations continue without them."
    return Hold(UNREADABLE, message if gate.passed else f"{message} Also: {gate.sentence}.")


def collect_failed(error: Exception) -> Hold:
    """Hold on telemetry that raised an error."""
    return Hold("collect_failed", f"The telemetry could not be read: {reason(error)}")


def memory_unreadable(error: Exception) -> Hold:
    """Hold because an optimizer's memory cannot be read."""
    return Hold("memory_unreadable", f"No change: {error}")


def real_time(signals: Signals) -> Hold | None:
    """Hold while a query is in real-time mode; None if none is."""
    modes = [(app.app, app.running_tasks) for app in signals.apps if app.running_tasks is not None]
    if not modes:
        return None
    app, tasks = modes[0]
    need = f"its {tasks} tasks run all the time and need {tasks} slots" if tasks else "its tasks run all the time"
    return Hold("real_time", f"{app} runs in real-time mode, which Millrace does not size: {need}.")


def still_waiting(asked: Decision) -> Hold:
    """Hold while a person has not answered."""
    what = without_lead(asked.sentence)
    return Hold("awaiting_approval", f"Decision {asked.decision_id} is still waiting for approval: {what}")


def without_lead(sentence: str) -> str:
    """Return the sentence of a change that waits for approval, without what says so."""
    return sentence.removeprefix(LEAD[Action.AWAIT])


def refused_before(veto: Decision) -> Hold:
    """Hold on a change that a person refused recently."""
    return Hold(REJECTED, f"Not asking again: {veto.sentence}")


def explain_change(
    action: Action, proposals: Proposals, signals: Signals | None, veto: GuardOutcome | None = None
) -> str:
    """Describe a change, for example ``delays: slots 2 -> 4: 850 rows/s arrived in the last 20 s, and ...``.

    Args:
        action: The Decision's action.
        proposals: The accepted changes and the proposals behind them.
        signals: Signals of this evaluation; None for a forced change of a silent pipeline.
        veto: The guard that vetoed it.
    """
    steps = ", ".join(_steps(proposals.changes))
    why = " ".join(_sentence(p.sentence) for p in proposals.proposals if acts(p) or p.reason_code in INSTEAD_OF_SLOTS)
    if not why and signals is not None:
        measured = (_measured(app, proposals, signals) for app in _changed(proposals.changes, signals))
        why = "; ".join(filter(None, measured))
    text = LEAD.get(action, "") + (_sentence(": ".join(filter(None, (steps, why)))))
    objection = f"Vetoed by {_objection(veto)}." if veto else ""
    failures = [_sentence(p.sentence) for p in proposals.proposals if p.reason_code == FAILED]
    return " ".join(filter(None, [text, objection, *_advised(proposals), *failures]))


def explain_hold(proposals: Proposals, request: Request) -> str:
    """Say why the proposals change nothing."""
    if request.forced_slots is not None:
        return f"No change: the app already has {request.forced_slots} slots."
    sentences = [_sentence(p.sentence) for p in proposals.proposals if not p.advises]
    sentences += [*_advised(proposals), *(_sentence(a.sentence) for a in proposals.advice)]
    return " ".join(filter(None, sentences)) or "Nothing new to decide on."


def missing_slots(signals: Signals, current: Deployment) -> str:
    """Name the apps that have fewer slots than they should; empty if none has.

    Args:
        signals: Signals of the newest version, or of one with the same apps.
        current: The newest version.
    """
    short = [(a, current.apps[a.app].slots) for a in signals.settled if a.app in current.apps]
    return " ".join(
        f"{app.app} has {app.slots} of its {wanted} slots: the cluster has not provided the other executors."
        for app, wanted in short
        if app.slots < wanted
    )


def graph_problems(signals: Signals | None, *, streams_move: bool = False) -> str:
    """Say which apps are not measured, which write to the same place, and which form a circle; empty if all is well.

    Args:
        signals: What was measured.
        streams_move: Whether queries move between the apps, which explains that two have written to one place.
    """
    if signals is None:
        return ""
    so = "" if streams_move else ", so it keeps its slots"
    told = [f"{app} has not reported lately{so}." for app in signals.unmeasured]
    writers: dict[str, list[str]] = {}
    for app in () if streams_move else signals.apps:
        for sink in app.sinks:
            writers.setdefault(sink, []).append(app.app)
    told += [
        f"{' and '.join(apps)} write to the same {sink.partition(':')[2]}: check that this is meant."
        for sink, apps in writers.items()
        if len(apps) > 1
    ]
    if signals.circle and not streams_move:
        names = ", ".join(signals.circle)
        told.append(f"{names} feed each other in a circle: each app is sized only by what arrives at it.")
    return " ".join(told)


def lagging_partitions(signals: Signals | None) -> str:
    """Name the source partitions that hold most of the waiting rows, if there are others; empty if none do."""
    told = []
    for app in signals.apps if signals else ():
        partition, rows = max(app.lag.items(), key=lambda part: part[1], default=("", 0))
        if len(app.lag) > 1 and app.backlog_rows and rows >= HOT_SHARE * app.backlog_rows:
            told.append(f"{rows:,} of the {app.backlog_rows:,} waiting rows are in {partition}.")
    return " ".join(told)


def put_off(changes: Iterable[Change], veto: GuardOutcome) -> str:
    """Say which changes are left out, and which guard requires that."""
    return f"Not now: {', '.join(_steps(changes))} ({_objection(veto)})."


def _objection(veto: GuardOutcome) -> str:
    return f"{veto.guard}: {veto.reason}"


def _steps(changes: Iterable[Change]) -> list[str]:
    """Return each change in short, a join's changes as one; streams and partitions are only counted."""
    changes = list(changes)
    steps = [f"{c.app}: {_step(c)}" for c in changes if c.field not in LIVE]
    for app, of_join in groupby((c for c in changes if c.field in JOIN_FIELDS), key=lambda c: c.app):
        steps.append(f"{app}: {', '.join(map(_step, of_join))}")
    steps += [f"{c.app}: another map for {c.operator}" for c in changes if c.field == PARTITION_MAP]
    streams = [c for c in changes if c.field == INGEST and c.value != NOWHERE]
    left = sum(c.field == INGEST and c.value == NOWHERE for c in changes)
    if streams:
        moved = f"{len(streams)} stream{'s' * (len(streams) != 1)}"
        fleet = any(c.app in (node_name(int(c.before)), node_name(int(c.value))) for c in streams)
        steps.append(f"{moved} to other nodes" if fleet else f"{streams[0].app}: {moved} to other ingest tables")
    if left:
        steps.append(f"{left} stream{'s' * (left != 1)} removed")
    for app, of_app in groupby((c for c in changes if c.field == PLACEMENT), key=lambda c: c.app):
        number = len(list(of_app))
        steps.append(f"{app}: {PLACEMENT} of {number} state partition{'s' * (number != 1)}")
    return steps


def _step(change: Change) -> str:
    return f"{change.name} {_short(change.before)} -> {_short(change.value)}"


def _short(value: float) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _advised(proposals: Proposals) -> list[str]:
    """Return the plans that only a person can carry out."""
    return [f"Advice by {p.optimizer}: {_sentence(p.sentence)}" for p in proposals.proposals if p.advises]


def _changed(changes: Iterable[Change], signals: Signals) -> list[AppSignals]:
    names = {c.app for c in changes}
    return [app for app in signals.apps if app.app in names]


def _measured(app: AppSignals, proposals: Proposals, signals: Signals) -> str:
    parts = []
    if app.arrival_rows_per_s is not None:
        waiting = f" and {app.backlog_rows:,} wait" if app.backlog_rows else ""
        parts.append(
            f"{arrival_phrase(app.arrival_basis, f'{app.arrival_rows_per_s:,.0f}', signals.period_of(app))}{waiting}"
        )
    if app.capacity is not None:
        can = f"{app.slots} slot{'s' * (app.slots != 1)} can sustain {app.sustainable(signals.objective):,.0f} rows/s"
        throughput = predicted_of(proposals.predicted, app.app, THROUGHPUT)
        if throughput is not None:
            then = replace(app.capacity, rows_per_s=throughput)
            can += f", expected after the change: {app.sustainable(signals.objective, then):,.0f} rows/s"
        parts.append(can)
    return ", ".join(parts)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."
