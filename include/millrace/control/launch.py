"""Do what a person wants with a pipeline: start, stop, resize, roll back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from millrace.control.fleet_streams import first_nodes
from millrace.control.spec_update import described, slots_allowed, with_adapted, within_budget
from millrace.drivers.quota import check_quota
from millrace.lake.control_tables import ControlTables
from millrace.lake.decisions import new_decision_id
from millrace.lake.deployments import OUTRUN
from millrace.model.decision import Action, Decision
from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.errors import Conflict, MillraceError
from millrace.model.spec import PipelineSpec


def launch(
    spec: PipelineSpec,
    tables: ControlTables,
    *,
    running: bool = True,
    slots: int | None = None,
    app: str | None = None,
    roll_back_to: int | None = None,
    author: str = "person",
    alive: bool = True,
    join_workers: int | None = None,
) -> Deployment:
    """Make what a person wants the pipeline's newest Deployment; safe to repeat: the same content makes no new version.

    If the newest content does not run, launching it again makes a new version, which is tried at once, whatever failed
    before.

    Args:
        spec: The pipeline; script, arguments, memory and submit settings are read from it as they are now.
        tables: The control tables.
        running: False to stop the pipeline.
        slots: Slots of its app, within the spec's bounds; None keeps those of the newest version.
        app: The app that gets the slots; None if there is only one.
        roll_back_to: A former version to restore as it was, running or not, instead of all the above.
        author: Person who wants it.
        alive: Whether a driver of the pipeline is alive.
        join_workers: Workers that its join starts with, within the spec's bounds; None for the spec's number.

    Raises:
        Conflict: If other commits kept coming first; try again.
        MillraceError: If slots are out of bounds or exceed what the budget or the quota leaves, the app or the version
            does not exist, slots or a stop are given with a version, or a pipeline that was never launched is to be
            stopped.
    """
    sized = None if slots is None else spec.app_named(app)
    _check(sized, slots, roll_back_to, running)
    forced = {} if sized is None or slots is None else {sized.app: slots}
    quota = spec.guards.max_total_slots
    if roll_back_to is not None:
        return roll_back(tables, spec.name, roll_back_to, author, datetime.now(UTC), quota)
    for in_use in tables.deployments.attempts():
        latest = in_use.latest(spec.name)
        if latest is None and not running:
            remedy = f"{spec.name} was never launched, so there is nothing to stop."
            raise MillraceError("pipeline", spec.name, "a pipeline that was launched", remedy)
        wanted = replace(_content(spec, latest, forced, join_workers), running=running, author=author)
        if latest is not None and _is_met(tables, wanted, latest, alive):
            return latest
        _check_budget(spec, wanted, latest, forced)
        check_quota(wanted, in_use, quota)
        with suppress(Conflict):
            return tables.deployments.commit(wanted, None if latest is None else latest.version, in_use)
    raise Conflict(OUTRUN)


def roll_back(
    tables: ControlTables, pipeline: str, to_version: int, author: str, now: datetime, quota: int | None
) -> Deployment:
    """Commit a new version with the content of an old one and return it; the reconciler does the rest.

    A repeated call finds the old content in place and makes no further version.

    Args:
        tables: The control tables.
        pipeline: Name of the pipeline.
        to_version: The version to go back to.
        author: Person who wants it.
        now: The present (UTC).
        quota: Slots that all pipelines together may hold, the spec's ``guards.max_total_slots``.

    Raises:
        MillraceError: If the pipeline has no such version, or the quota does not leave the slots that it had.
        Conflict: If other commits kept coming first; try again.
    """
    old = tables.deployments.get(pipeline, to_version)
    for in_use in tables.deployments.attempts():
        latest = in_use.latest(pipeline)
        if old is None or latest is None:
            allowed = f"1 to {latest.version}" if latest else "none: it was never launched"
            remedy = f"./millrace deployments {pipeline} lists the versions."
            raise MillraceError("roll_back_to", to_version, allowed, remedy)
        if (old.content, old.running) == (latest.content, latest.running) and not latest.detached:
            _record(tables, latest, now)  # an earlier call may have died between commit and record
            return latest
        sentence = f"{author} rolled back from version {latest.version} to the content of version {to_version}."
        decision_id = new_decision_id(now, pipeline, "roll back", str(latest.version))
        target = replace(old, author=author, decision_id=decision_id, reason=sentence)
        # its plan would add the slots again that the person takes away
        target = replace(target, detached=False, source=latest.source, contingencies=None, origin=None)
        check_quota(target, in_use, quota)
        with suppress(Conflict):
            version = tables.deployments.commit(target, latest.version, in_use)
            _record(tables, version, now)
            return version
    raise Conflict(OUTRUN)


def detach(tables: ControlTables, pipeline: str, author: str) -> Deployment:
    """Leave a pipeline's job running without Millrace; return the newest Deployment, which is marked as detached.

    Raises:
        Conflict: If other commits kept coming first; try again.
        MillraceError: If the pipeline is not supposed to run.
    """
    return _mark(tables, pipeline, True, author, f"{author} detached it: its job keeps running without Millrace.")


def attach(tables: ControlTables, pipeline: str, author: str) -> Deployment:
    """Take a detached pipeline back as it runs; an attached pipeline stays as it is.

    Raises:
        Conflict: If other commits kept coming first; try again.
        MillraceError: If the pipeline is not supposed to run.
    """
    return _mark(tables, pipeline, False, author, f"{author} attached it again, without a restart.")


def _mark(tables: ControlTables, pipeline: str, detached: bool, author: str, reason: str) -> Deployment:
    for in_use in tables.deployments.attempts():
        latest = in_use.latest(pipeline)
        if latest is None or not latest.running:
            state = "is stopped" if latest else "was never launched"
            remedy = f"{pipeline} {state}; start it with ./millrace trigger {pipeline}."
            raise MillraceError("pipeline", pipeline, "a pipeline that is not stopped", remedy)
        if latest.detached == detached:
            return latest
        # the same content: its driver is the right one before and after
        origin = latest.origin or latest.version
        marked = replace(latest, detached=detached, author=author, decision_id=None, reason=reason, origin=origin)
        with suppress(Conflict):
            return tables.deployments.commit(marked, latest.version, in_use)
    raise Conflict(OUTRUN)


def _record(tables: ControlTables, version: Deployment, now: datetime) -> None:
    """Record the Decision of a rollback, unless it is recorded already."""
    if version.decision_id is None or tables.decisions.get(version.decision_id) is not None:
        return
    decision = Decision(version.decision_id, version.pipeline, now, Action.ROLL_BACK, "roll_back", version.reason)
    tables.decisions.record(replace(decision, base_version=version.version - 1, target=version))


def _check(sized: PipelineSpec | None, slots: int | None, roll_back_to: int | None, running: bool) -> None:
    if sized is not None and slots not in (allowed := sized.bounds_contract(datetime.now(UTC))):
        remedy = f"Choose within the bounds, or widen them in {sized.name}'s spec."
        raise MillraceError("slots", slots, str(allowed), remedy)
    if slots is not None and roll_back_to is not None:
        remedy = "A rollback also restores the slots; leave slots out."
        raise MillraceError("roll_back_to", roll_back_to, "only without slots", remedy)
    if not running and roll_back_to is not None:
        remedy = "A rollback also restores whether the pipeline runs; stop it alone, or roll back alone."
        raise MillraceError("roll_back_to", roll_back_to, "only without a stop", remedy)


def _check_budget(spec: PipelineSpec, wanted: Deployment, latest: Deployment | None, forced: Mapping[str, int]) -> None:
    """Refuse a person's slots for one of several apps if the budget does not leave them; others keep theirs."""
    most, total = slots_allowed(spec, latest), wanted.slots
    for app, slots in forced.items():
        if spec.budget is not None and wanted.running and total > most:
            allowed = f"at most {most - total + slots}: budget.slots is {spec.budget.slots}"
            others = {name: other for name in wanted.apps if name != app and (other := wanted.wanted(name))}
            held = ", ".join(f"{name} {other.slots}" for name, other in others.items())
            remedy = f"The other apps have {held}: give another one fewer first, or raise budget.slots."
            raise MillraceError("slots", slots, allowed, remedy)


def _is_met(tables: ControlTables, wanted: Deployment, latest: Deployment, alive: bool) -> bool:
    if latest.detached or (latest.running, latest.content) != (wanted.running, wanted.content):
        return False
    return not latest.running or (alive and tables.reconfigurations.given_up(latest) is None)


def _content(
    spec: PipelineSpec, latest: Deployment | None, forced: Mapping[str, int], join_workers: int | None
) -> Deployment:
    first = described(spec)
    if first.join is not None and join_workers is not None:
        first = replace(first, join=replace(first.join, workers=join_workers))
    before: Mapping[str, AppDeployment] = latest.apps if latest else {}
    # keep the slots that adaptation found, unless the spec's bounds have moved
    allowed = spec.bounds_by_app(datetime.now(UTC))
    kept = {name: bounds.level(before[name].slots) for name, bounds in allowed.items() if name in before}
    slots = {**kept, **forced}
    apps = {name: replace(app, slots=slots.get(name, app.slots)) for name, app in first.apps.items()}
    if latest is None:
        content = replace(first, apps=apps, ingest=first_nodes(spec))
    else:
        adapted = with_adapted(first, spec, latest)
        content = replace(adapted, apps=apps, reason="launched again", ingest=latest.ingest)
    return content if forced else within_budget(spec, content, latest, datetime.now(UTC))
