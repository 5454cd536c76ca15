"""Decisions as a person reads them: why nothing is decided, what changes from what to what, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from millrace.control.changes import ABILITY
from millrace.control.evaluation import GateResult, Hold, Request
from millrace.control.proposals import FAILED, Proposals, acts
from millrace.drivers import driver_log
from millrace.lake.reconfigurations import BROKEN
from millrace.model.arrival import arrival_phrase
from millrace.model.decision import Action, Decision, GuardOutcome, Outcome, Reconfiguration
from millrace.model.deployment import INGEST, JOIN_FIELDS, LIVE, PLACEMENT, Change, Deployment
from millrace.model.failure import in_sentence, reason
from millrace.model.signals import AppSignals, Signals

LEAD = {
    Action.APPLY: "",
    Action.AWAIT: "Waits for approval: ",
    Action.ADVISE: "Advice only: ",
    Action.VETO: "Not done: ",
    Action.ROLL_BACK: "Rolled back: ",
}
HOT_SHARE = 0.5
"""Share of the rows that wait, from which the partition that they wait in is named."""
UNREADABLE = "unreadable_file"
NAMED_FILES = 3
"""Files that a message names."""
TABLE_REPLACED = "The telemetry table was recreated since the last evaluation: this one starts from its newest rows."
NEXT_RUN = "It has finished: this is for its next run."
NOTHING_MEASURED = Hold("no_signals", "Nothing was measured.")


def not_launched(pipeline: str) -> Hold:
    """Hold before the first launch."""
    return Hold("not_launched", f"{pipeline} has not been launched; trigger launch_{pipeline} first.")


def stopped(pipeline: str) -> Hold:
    """Hold while a person wants the pipeline stopped."""
    return Hold("stopped", f"{pipeline} is stopped; trigger launch_{pipeline} to start it.")


def detached(pipeline: str) -> Hold:
    """Hold while a pipeline's job runs without Millrace."""
    return Hold("detached", f"{pipeline} is detached; ./millrace attach {pipeline} has it evaluated again.")


def driver_failed(last: Reconfiguration) -> Hold:
    """Hold while no driver runs: the last one failed, and is not started again."""
    what = "fails again and again" if last.outcome is Outcome.CIRCUIT_OPEN else "failed"
    message = f"{last.app} does not run: its driver {what}: {in_sentence(last.error)}."
    return Hold(BROKEN[last.outcome], f"{message}{log_of(last)}")


def log_of(change: Reconfiguration) -> str:
    """Return where the log of a change's driver is, as a sentence; empty for a change without a driver."""
    if change.generation is None:
        return ""
    log = driver_log.path(Path("logs", "drivers"), change.pipeline, change.app, change.generation)
    return f" Log: {log} of the home."


def not_running_yet(wanted: int, measured: int) -> Hold:
    """Hold until the newest version is measured."""
    message = f"Version {wanted} is not measured yet: the telemetry is of version {measured}."
    return Hold("not_running_yet", message)


def bad_telemetry(gate: GateResult) -> Hold:
    """Hold on telemetry that the quality gate refused."""
    return Hold("data_quality", f"Nothing is changed on bad telemetry: {gate.sentence}.")


def unreadable(files: Sequence[str], gate: GateResult) -> Hold:
    """Hold once on files that cannot be read; ``gate`` is what the quality gate said of the rest."""
    more = f" and {len(files) - NAMED_FILES} more" if len(files) > NAMED_FILES else ""
    names = f"{', '.join(files[:NAMED_FILES])}{more}"
    message = f"Nothing is changed: {names} cannot be read; later evaluations go on without them."
    return Hold(UNREADABLE, message if gate.passed else f"{message} Besides: {gate.sentence}.")


def collect_failed(error: Exception) -> Hold:
    """Hold on telemetry that raised an error."""
    return Hold("collect_failed", f"The telemetry could not be read: {reason(error)}")


def memory_unreadable(error: Exception) -> Hold:
    """Hold where an optimizer's memory cannot be read."""
    return Hold("memory_unreadable", f"Nothing is changed: {error}")


def real_time(signals: Signals) -> Hold | None:
    """Hold while a query is in real-time mode; None if none is."""
    modes = [(app.app, app.running_tasks) for app in signals.apps if app.running_tasks is not None]
    if not modes:
        return None
    app, tasks = modes[0]
    need = f"the {tasks} tasks that run all the time need {tasks} slots" if tasks else "its tasks run all the time"
    return Hold("real_time", f"{app} runs in real-time mode, which Millrace does not size: {need}.")


def still_waiting(asked: Decision) -> Hold:
    """Hold while a person has not answered."""
    return Hold("awaiting_approval", f"Decision {asked.decision_id} still waits for a person: {asked.sentence}")


def refused_before(veto: Decision) -> Hold:
    """Hold on a change that a person refused lately."""
    return Hold("rejected", f"The same change was refused: {veto.sentence}")


def explain_change(
    action: Action, proposals: Proposals, signals: Signals | None, veto: GuardOutcome | None = None
) -> str:
    """Return a change for a person, for example ``delays: slots 2 -> 4: 850 rows/s arrive and ...``.

    Args:
        action: What became of it.
        proposals: The accepted changes and the proposals behind them.
        signals: What was measured; None for a forced change on a silent pipeline.
        veto: The guard that vetoed it.
    """
    steps = ", ".join(_steps(proposals.changes))
    why = " ".join(_sentence(p.sentence) for p in proposals.proposals if acts(p))
    if not why and signals is not None:
        measured = (_measured(app, proposals, signals) for app in _changed(proposals.changes, signals))
        why = "; ".join(filter(None, measured))
    text = LEAD.get(action, "") + (_sentence(": ".join(filter(None, (steps, why)))))
    objection = f"Vetoed by {_objection(veto)}." if veto else ""
    failures = [_sentence(p.sentence) for p in proposals.proposals if p.reason_code == FAILED]
    return " ".join(filter(None, [text, objection, *_advised(proposals), *failures]))


def explain_hold(proposals: Proposals, request: Request) -> str:
    """Return for a person why the proposals change nothing."""
    if request.forced_slots is not None:
        return f"Nothing to change: the app has {request.forced_slots} slots already."
    sentences = [_sentence(p.sentence) for p in proposals.proposals if not p.advises]
    sentences += [*_advised(proposals), *(_sentence(a.sentence) for a in proposals.advice)]
    return " ".join(filter(None, sentences)) or "No optimizer proposed anything."


def missing_slots(signals: Signals | None, current: Deployment) -> str:
    """Return for a person which apps have fewer slots than they are to have; empty if none has."""
    settled = signals is not None and not signals.settling and signals.deployment_version == current.version
    apps = signals.apps if signals and settled else ()
    short = [(a, current.apps[a.app].slots) for a in apps if a.app in current.apps]
    return " ".join(
        f"{app.app} has {app.slots} of its {wanted} slots: the cluster has no room for more executors."
        for app, wanted in short
        if app.slots < wanted
    )


def lagging_partitions(signals: Signals | None) -> str:
    """Return for a person which source partitions hold most of what waits, where there are others; empty if none do."""
    told = []
    for app in signals.apps if signals else ():
        partition, rows = max(app.lag.items(), key=lambda part: part[1], default=("", 0))
        if len(app.lag) > 1 and app.backlog_rows and rows >= HOT_SHARE * app.backlog_rows:
            told.append(f"{rows:,} of the {app.backlog_rows:,} rows that wait are in {partition}.")
    return " ".join(told)


def put_off(changes: Iterable[Change], veto: GuardOutcome) -> str:
    """Return for a person what a change leaves out, and which guard wants it so."""
    return f"Not now: {', '.join(_steps(changes))} ({_objection(veto)})."


def _objection(veto: GuardOutcome) -> str:
    return f"{veto.guard}: {veto.reason}"


def _steps(changes: Iterable[Change]) -> list[str]:
    """Return each change in short, those of a join as one; streams and partitions are only counted."""
    changes = list(changes)
    steps = [f"{c.app}: {_step(c)}" for c in changes if c.field not in LIVE]
    for app, of_join in groupby((c for c in changes if c.field in JOIN_FIELDS), key=lambda c: c.app):
        steps.append(f"{app}: {', '.join(map(_step, of_join))}")
    streams = [c for c in changes if c.field == INGEST]
    if streams:
        steps.append(f"{streams[0].app}: {len(streams)} stream{'s' * (len(streams) != 1)} to other ingest tables")
    for app, of_app in groupby((c for c in changes if c.field == PLACEMENT), key=lambda c: c.app):
        steps.append(f"{app}: {PLACEMENT} of {len(list(of_app))} partitions")
    return steps


def _step(change: Change) -> str:
    return f"{change.field} {_short(change.before)} -> {_short(change.value)}"


def _short(value: float) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _advised(proposals: Proposals) -> list[str]:
    """Return the plans that nobody carries out but a person."""
    return [f"Advice by {p.optimizer}: {_sentence(p.sentence)}" for p in proposals.proposals if p.advises]


def _changed(changes: Iterable[Change], signals: Signals) -> list[AppSignals]:
    names = {c.app for c in changes}
    return [app for app in signals.apps if app.app in names]


def _measured(app: AppSignals, proposals: Proposals, signals: Signals) -> str:
    parts = []
    if app.arrival_rows_per_s is not None:
        waiting = f" and {app.backlog_rows:,} wait" if app.backlog_rows else ""
        parts.append(
            f"{arrival_phrase(app.arrival_basis, f'{app.arrival_rows_per_s:,.0f}', signals.period_s)}{waiting}"
        )
    if app.capacity is not None:
        can = f"{app.slots} slot{'s' * (app.slots != 1)} can sustain {app.sustainable(signals.objective):,.0f} rows/s"
        if ABILITY in proposals.predicted:
            then = replace(app.capacity, rows_per_s=proposals.predicted[ABILITY])
            can += f", expected afterwards {app.sustainable(signals.objective, then):,.0f}"
        parts.append(can)
    return ", ".join(parts)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."
