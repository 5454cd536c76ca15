"""Decisions in words: what changes from what to what, what arrives, what can be processed, and why."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from include.control.changes import ABILITY
from include.control.evaluation import Request
from include.control.proposals import FAILED, Wishes
from include.model.decision import Action
from include.model.deployment import INGEST, JOIN_FIELDS, LIVE, Change
from include.model.signals import AppSignals, Signals

LEAD = {
    Action.APPLY: "",
    Action.AWAIT: "Waits for approval: ",
    Action.ADVISE: "Advice only: ",
    Action.VETO: "Not done: ",
}


def change_sentence(action: Action, wishes: Wishes, signals: Signals | None, objection: str = "") -> str:
    """Return a change for a person, for example ``delays: slots 2 -> 4: 850 rows/s arrive and ...``.

    Args:
        action: What became of it.
        wishes: The accepted changes and the proposals behind them.
        signals: What was measured; None for a forced change on a silent pipeline.
        objection: A guard and its reason, for a veto.
    """
    steps = ", ".join(_steps(wishes.changes))
    why = " ".join(_sentence(p.sentence) for p in wishes.proposals if p.changes)
    why = why or "; ".join(filter(None, (_measured(app, wishes) for app in _changed(wishes.changes, signals))))
    text = LEAD.get(action, "") + (_sentence(f"{steps}: {why}" if why else steps))
    parts = [text, f"Vetoed by {objection}." if objection else "", *_advised(wishes), *_failed(wishes)]
    return " ".join(filter(None, parts))


def hold_sentence(wishes: Wishes, request: Request) -> str:
    """Return for a person why a look changes nothing."""
    if request.forced_slots is not None:
        return f"Nothing to change: the app has {request.forced_slots} slots already."
    words = [_sentence(p.sentence) for p in wishes.proposals if not p.advises]
    words += [*_advised(wishes), *(_sentence(a.sentence) for a in wishes.advice)]
    return " ".join(filter(None, words)) or "No optimizer proposed anything."


def put_off_sentence(changes: Iterable[Change], objection: str) -> str:
    """Return for a person what a change leaves out, and which guard wants it so."""
    return f"Not now: {', '.join(_steps(changes))} ({objection})."


def _steps(changes: Iterable[Change]) -> list[str]:
    """Return each change in short, those of a join as one; streams are only counted, as there may be many."""
    changes = list(changes)
    found = [f"{c.app}: {_step(c)}" for c in changes if c.field not in LIVE]
    for app, of_join in groupby((c for c in changes if c.field in JOIN_FIELDS), key=lambda c: c.app):
        found.append(f"{app}: {', '.join(map(_step, of_join))}")
    streams = [c for c in changes if c.field == INGEST]
    if streams:
        found.append(f"{streams[0].app}: {len(streams)} stream{'s' * (len(streams) != 1)} to other ingest tables")
    return found


def _step(change: Change) -> str:
    return f"{change.field} {_short(change.before)} -> {_short(change.value)}"


def _short(value: float) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _advised(wishes: Wishes) -> list[str]:
    """Return the plans that nobody carries out but a person."""
    return [f"Advice by {p.optimizer}: {_sentence(p.sentence)}" for p in wishes.proposals if p.advises]


def _failed(wishes: Wishes) -> list[str]:
    """Return which advice there is none of."""
    return [_sentence(p.sentence) for p in wishes.proposals if p.reason_code == FAILED]


def _changed(changes: Iterable[Change], signals: Signals | None) -> list[AppSignals]:
    names = {c.app for c in changes}
    return [app for app in signals.apps if app.app in names] if signals else []


def _measured(app: AppSignals, wishes: Wishes) -> str:
    parts = []
    if app.arrival_rows_per_s is not None:
        waiting = f" and {app.backlog_rows:,} wait" if app.backlog_rows else ""
        parts.append(f"{app.arrival_rows_per_s:,.0f} rows/s arrive{waiting}")
    if app.capacity is not None:
        can = f"{app.slots} slot{'s' * (app.slots != 1)} can process {app.capacity.rows_per_s:,.0f} rows/s"
        if ABILITY in wishes.predicted:
            can += f", expected afterwards {wishes.predicted[ABILITY]:,.0f}"
        parts.append(can)
    return ", ".join(parts)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."
