"""What a person wants a pipeline to be: started, stopped, resized, rolled back."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from include.control.apply import roll_back
from include.drivers.quota import check_quota
from include.lake.deployments import OUTRUN, DeploymentStore
from include.lake.reconfigurations import ReconfigurationStore
from include.lake.store import Lake
from include.model.deployment import Deployment
from include.model.errors import Conflict, MillraceError
from include.model.spec import PipelineSpec


def launch(
    spec: PipelineSpec,
    lake: Lake,
    *,
    running: bool = True,
    slots: int | None = None,
    roll_back_to: int | None = None,
    author: str = "person",
    alive: bool = True,
) -> Deployment:
    """Make a person's wish the pipeline's newest Deployment; safe to repeat, a wish already met makes no version.

    A content that does not run is not met by being there: launched again it becomes a new version, which is tried at
    once, whatever failed before.

    Args:
        spec: The pipeline; script, arguments, memory and submit settings are taken from it as they are now.
        lake: The control tables.
        running: False to stop the pipeline.
        slots: Slots of its app, within the spec's bounds; None keeps those of the newest version.
        roll_back_to: A former version that is wanted again as it was, running or not, instead of all the above.
        author: Who wishes it.
        alive: Whether a driver of the pipeline is alive.

    Raises:
        Conflict: If other changes kept coming first; try again.
        MillraceError: If slots are out of bounds or beyond what the quota leaves, the version does not exist, both
            are given, or a pipeline that was never launched is to be stopped.
    """
    _check(spec, slots, roll_back_to)
    quota = spec.guards.max_total_slots
    if roll_back_to is not None:
        return roll_back(lake, spec.name, roll_back_to, author, datetime.now(UTC), quota)
    store = DeploymentStore(lake)
    for in_use in store.attempts():
        latest = in_use.latest(spec.name)
        if latest is None and not running:
            raise MillraceError("running", running, "a pipeline that was launched", f"Launch {spec.name} first.")
        wanted = replace(_content(spec, latest, slots), running=running, author=author)
        if latest is not None and _is_met(lake, wanted, latest, alive):
            return latest
        check_quota(wanted, in_use, quota)
        with suppress(Conflict):
            return store.commit(wanted, None if latest is None else latest.version, in_use)
    raise Conflict(OUTRUN)


def _check(spec: PipelineSpec, slots: int | None, roll_back_to: int | None) -> None:
    if slots is not None and not spec.slots.min <= slots <= spec.slots.max:
        allowed = f"{spec.slots.min} to {spec.slots.max}"
        raise MillraceError("slots", slots, allowed, f"Choose within the bounds, or widen them in {spec.name}'s spec.")
    if slots is not None and roll_back_to is not None:
        raise MillraceError("roll_back_to", roll_back_to, "given without slots", "A roll-back restores the slots too.")


def _is_met(lake: Lake, wanted: Deployment, latest: Deployment, alive: bool) -> bool:
    if (latest.running, latest.content) != (wanted.running, wanted.content):
        return False
    return not latest.running or (alive and ReconfigurationStore(lake).given_up(latest) is None)


def _content(spec: PipelineSpec, latest: Deployment | None, slots: int | None) -> Deployment:
    first = spec.first_deployment()
    found = latest.apps.get(spec.app) if latest else None
    # what adaptation has found stays, unless the spec's bounds have moved
    kept = first.apps[spec.app].slots if found is None else min(max(found.slots, spec.slots.min), spec.slots.max)
    app = replace(first.apps[spec.app], slots=kept if slots is None else slots)
    if latest is None:
        return replace(first, apps={spec.app: app})
    join = first.join if spec.join is None or latest.join is None else spec.join.kept(latest.join)
    return replace(first, apps={spec.app: app}, reason="launched again", ingest=latest.ingest, join=join)
