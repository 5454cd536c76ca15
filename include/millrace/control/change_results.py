"""Results of earlier changes: what each achieved, and which failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from millrace.control.placement_cost import placement_cost
from millrace.lake.control_tables import ControlTables
from millrace.lake.reconfigurations import BROKEN, newest_of_each_app
from millrace.model.decision import Decision, Outcome, Reconfiguration
from millrace.model.deployment import PLACEMENT
from millrace.model.gain import SUSTAINABLE
from millrace.model.placement import STATEFUL_BATCH
from millrace.model.signals import Signals

THROUGHPUT = "throughput_rows_per_s"
"""Key of the throughput that a Decision predicts and a Reconfiguration achieves."""

FAILURES = {*BROKEN, Outcome.ROLLED_BACK}


def record_results(tables: ControlTables, signals: Signals) -> tuple[tuple[Reconfiguration, Decision], ...]:
    """Record what the last change achieved, and return the completed Reconfigurations with their Decisions.

    A change is judged once, after it has settled, and only if its own version was measured. If a predicted figure
    cannot be measured yet (no capacity), a later evaluation does it. If state partitions were placed, the cost of
    their moves is added.
    """
    verified: list[tuple[Reconfiguration, Decision]] = []
    for change in unverified(tables.reconfigurations.recent(signals.pipeline), signals):
        decision = tables.decisions.get(change.decision_id or "")
        if decision is not None and (achieved := achieved_by(change, decision, signals)):
            cost = placement_cost(tables.lake, change, signals.until, signals.trigger_s) if _places(decision) else {}
            completed = replace(change, achieved={**achieved, **cost})
            tables.reconfigurations.record(completed)
            verified.append((completed, decision))
    return tuple(verified)


def _places(decision: Decision) -> bool:
    return any(change.field == PLACEMENT for proposal in decision.proposals for change in proposal.changes)


def unverified(history: Iterable[Reconfiguration], signals: Signals) -> list[Reconfiguration]:
    """Return the decided changes that these signals can judge.

    Args:
        history: Reconfigurations, newest first.
        signals: Signals of this evaluation.
    """
    settled = {app.app for app in signals.settled}
    return [
        c
        for c in newest_of_each_app(history)
        if c.app in settled
        and c.outcome is Outcome.READY
        and c.decision_id is not None
        and not c.achieved
        and c.shows_in(signals)
    ]


def achieved_by(change: Reconfiguration, decision: Decision, signals: Signals) -> Mapping[str, float]:
    """Return what was measured, under the keys of what was predicted.

    It is empty while the capacity is unknown, unless only the time of stateful stages was predicted.
    """
    app = next((a for a in signals.apps if a.app == change.app), None)
    capacity, groups = app.capacity if app else None, signals.partition_loads
    target = decision.target.apps[change.app] if decision.target else None
    measured: dict[str, float | None] = {}
    if app is not None and capacity is not None and capacity.parallelism == app.parallelism:
        arrival, rate = app.arrival_rows_per_s, capacity.rows_per_s
        measured = {
            THROUGHPUT: rate,
            "fixed_s": capacity.fixed_s,
            "parallelism": float(capacity.parallelism),
            "slots": float(app.slots),
            "arrival_rows_per_s": arrival,
            SUSTAINABLE: app.sustainable(signals.objective),
            "utilisation_ratio": None if arrival is None else arrival / rate,
        }
    elif set(decision.predicted) != {STATEFUL_BATCH}:
        return {}
    measured[STATEFUL_BATCH] = (
        None
        if groups is None or target is None or target.executor is None
        else groups.stateful_batch_s(target.slots_per_executor)
    )
    found = {key: measured.get(key.removesuffix(f"/{change.app}")) for key in decision.predicted}
    return {key: value for key, value in found.items() if value is not None}


def last_decided(history: Iterable[Reconfiguration]) -> list[Reconfiguration]:
    """Return each app's last change that a Decision made.

    Args:
        history: Reconfigurations, newest first.
    """
    return newest_of_each_app(change for change in history if change.decision_id is not None)


def failed_changes(history: Sequence[Reconfiguration]) -> list[Reconfiguration]:
    """Return the changes that failed because of what they changed, newest first.

    A driver that failed while it served did not fail because of a change. Nor did new content, if the old content was
    tried after it and failed too.

    Args:
        history: Reconfigurations, newest first.
    """
    later: dict[str, Reconfiguration] = {}
    failed = []
    for change in history:
        new = change.from_version != change.to_version
        if change.outcome in FAILURES and new and not _fails_as_well(change, later.get(change.app)):
            failed.append(change)
        later[change.app] = change
    return failed


def since_s(now: datetime, time: datetime) -> float:
    """Return how long ago a time was, seconds.

    A time in the future means that the clock was set back. Its distance counts, so nothing waits for the clock.
    """
    return abs((now - time).total_seconds())


def dead_drivers(history: Iterable[Reconfiguration]) -> frozenset[int]:
    """Return the generations of drivers that died or were killed: each left a failure, or was replaced.

    Args:
        history: Reconfigurations of one app, in any order.
    """
    dead: set[int] = set()
    for change in history:
        if change.generation is None or change.from_version != change.to_version:
            continue
        broken = change.outcome in BROKEN
        if broken:
            dead.add(change.generation)
        if not broken or change.ended != change.started:  # a start to heal, successful or not, not a failure's record
            dead.add(change.generation - 1)
    return frozenset(dead)


def _fails_as_well(change: Reconfiguration, later: Reconfiguration | None) -> bool:
    return later is not None and later.outcome in BROKEN and later.to_version != change.to_version
