"""What a person wants a pipeline to be: start, stop, resize, roll back."""

from __future__ import annotations

from dataclasses import replace

from include.contracts.deployment import Deployment
from include.contracts.errors import Conflict, MillraceError
from include.control.stores.deployments import DeploymentStore
from include.lake.store import Lake
from include.pipelines.spec import PipelineSpec

ATTEMPTS = 5
"""Times that another writer may be first before a person is asked to look."""


def launch(
    spec: PipelineSpec,
    lake: Lake,
    *,
    running: bool = True,
    slots: int | None = None,
    roll_back_to: int | None = None,
    author: str = "person",
) -> Deployment:
    """Make a person's wish the pipeline's newest Deployment; safe to repeat, a wish already met makes no version.

    Args:
        spec: The pipeline; script, arguments, memory and submit settings are taken from it as they are now.
        lake: The control tables.
        running: False to stop the pipeline.
        slots: Slots of its app, within the spec's bounds; None keeps those of the newest version.
        roll_back_to: A former version whose content is wanted again instead of the spec's.
        author: Who wishes it.

    Raises:
        MillraceError: If slots are out of bounds, the version does not exist, both are given, or a pipeline that
            was never launched is to be stopped.
    """
    _check(spec, slots, roll_back_to)
    store = DeploymentStore(lake)
    for _ in range(ATTEMPTS):
        latest = store.latest(spec.name)
        if latest is None and not running:
            raise MillraceError("running", running, "a pipeline that was launched", f"Launch {spec.name} first.")
        wanted = _content(spec, store, latest, slots, roll_back_to)
        if latest is not None and (latest.running, latest.apps) == (running, wanted.apps):
            return latest
        wanted = replace(wanted, running=running, author=author, decision_id=None)
        try:
            return store.commit(wanted, None if latest is None else latest.version)
        except Conflict:
            continue
    raise MillraceError(
        "deployment", spec.name, "one writer at a time", "Pause the pipeline's adaptation, then launch again."
    )


def _check(spec: PipelineSpec, slots: int | None, roll_back_to: int | None) -> None:
    if slots is not None and not spec.slots.min <= slots <= spec.slots.max:
        allowed = f"{spec.slots.min} to {spec.slots.max}"
        raise MillraceError("slots", slots, allowed, f"Choose within the bounds, or widen them in {spec.name}'s spec.")
    if slots is not None and roll_back_to is not None:
        raise MillraceError("roll_back_to", roll_back_to, "given without slots", "A roll-back restores the slots too.")


def _content(
    spec: PipelineSpec, store: DeploymentStore, latest: Deployment | None, slots: int | None, roll_back_to: int | None
) -> Deployment:
    if roll_back_to is not None:
        former = store.get(spec.name, roll_back_to)
        if former is None:
            newest = f"1 to {latest.version}" if latest else "none yet"
            raise MillraceError("roll_back_to", roll_back_to, newest, "Name a version of this pipeline.")
        return replace(former, reason=f"rolled back to version {roll_back_to}")
    first = spec.first_deployment()
    found = latest.apps.get(spec.app) if latest else None
    # what adaptation has found stays, unless the spec's bounds have moved
    kept = first.apps[spec.app].slots if found is None else min(max(found.slots, spec.slots.min), spec.slots.max)
    app = replace(first.apps[spec.app], slots=kept if slots is None else slots)
    return replace(first, apps={spec.app: app}, reason=first.reason if latest is None else "launched again")
