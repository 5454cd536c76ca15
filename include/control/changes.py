"""What became of earlier changes: what each achieved, which brought nothing, and which failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from include.control.guards import Scaling
from include.lake.decisions import DecisionStore
from include.lake.reconfigurations import ReconfigurationStore
from include.lake.store import Lake
from include.model.decision import Decision, Outcome, Reconfiguration
from include.model.signals import AppSignals, Signals
from include.model.spec import PipelineSpec


def verify(spec: PipelineSpec, lake: Lake, signals: Signals) -> tuple[Reconfiguration, ...]:
    """Fill in what the last change achieved, and return the Reconfigurations that were completed so.

    A change is judged once, when it has settled, and only if its own version is what was measured. A predicted figure
    that the look cannot measure (no capacity yet) waits for a later look; an ineffective scaling then shows as
    ``achieved`` far from the Decision's ``predicted`` under the same keys.

    Args:
        spec: The pipeline.
        lake: Its control tables.
        signals: What the present look measured.
    """
    store = ReconfigurationStore(lake)
    done = () if signals.settling else completed(store.recent(spec.name), signals, DecisionStore(lake).get)
    for change in done:
        store.record(change)
    return done


def completed(
    changes: Sequence[Reconfiguration], signals: Signals, find: Callable[[str], Decision | None]
) -> tuple[Reconfiguration, ...]:
    """Return the changes that can be judged now, with what they achieved.

    Args:
        changes: Reconfigurations, newest first.
        signals: What the present look measured.
        find: Finds the Decision behind a change by its id.
    """
    if signals.settling:
        return ()
    apps = {app.app: app for app in signals.apps}
    done: list[Reconfiguration] = []
    for change in _judgeable(changes, signals):
        measured, decision = apps.get(change.app), find(change.decision_id or "")
        if measured is not None and decision is not None and (achieved := _measured(decision.predicted, measured)):
            done.append(replace(change, achieved=achieved))
    return tuple(done)


def _judgeable(changes: Sequence[Reconfiguration], signals: Signals) -> list[Reconfiguration]:
    newest: dict[str, Reconfiguration] = {}
    for change in changes:  # newest first
        newest.setdefault(change.app, change)
    return [
        c
        for c in newest.values()
        if c.outcome is Outcome.READY
        and c.decision_id is not None
        and not c.achieved
        and c.to_version == signals.deployment_version
    ]


def _measured(predicted: Mapping[str, float], app: AppSignals) -> dict[str, float]:
    """Return what was measured under the keys of what was predicted; empty while the capacity is not known."""
    if app.capacity is None or app.capacity.parallelism != app.parallelism:
        return {}
    rate = app.capacity.rows_per_s
    known: dict[str, float | None] = {
        "processing_ability_rows_per_s": rate,
        "fixed_s": app.capacity.fixed_s,
        "parallelism": float(app.capacity.parallelism),
        "slots": float(app.slots),
        "arrival_rows_per_s": app.arrival_rows_per_s,
        "utilisation_ratio": None if app.arrival_rows_per_s is None else app.arrival_rows_per_s / rate,
    }
    return {key: value for key in predicted if (value := known.get(key)) is not None}


ABILITY = "processing_ability_rows_per_s"
"""The key under which a Decision predicts and a Reconfiguration achieves."""


def last_scalings(history: Iterable[Reconfiguration], find: Callable[[str], Decision | None]) -> tuple[Scaling, ...]:
    """Return the last decided change of each app, where it has been verified.

    Args:
        history: Reconfigurations, newest first.
        find: Finds the Decision behind one by its id.
    """
    newest: dict[str, Reconfiguration] = {}
    for change in history:
        if change.decision_id is not None:
            newest.setdefault(change.app, change)
    found = (_scaling(change, find(change.decision_id or "")) for change in newest.values())
    return tuple(s for s in found if s is not None)


def _scaling(change: Reconfiguration, decision: Decision | None) -> Scaling | None:
    if decision is None or decision.target is None or change.ended is None or ABILITY not in change.achieved:
        return None
    signals = decision.signals
    app = next((a for a in signals.apps if a.app == change.app), None) if signals else None
    step = next(
        (c for p in decision.proposals for c in p.changes if (c.app, c.field) == (change.app, "slots")),
        None,
    )
    if app is None or app.capacity is None or step is None or ABILITY not in decision.predicted:
        return None
    return Scaling(
        app=change.app,
        before=int(step.before),
        after=decision.target.apps[change.app].slots,
        ended=change.ended,
        capacity_before=app.capacity.rows_per_s,
        capacity_predicted=decision.predicted[ABILITY],
        capacity_achieved=change.achieved[ABILITY],
    )
