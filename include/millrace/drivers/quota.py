"""The quota of all pipelines' slots for changes without a Decision: manual changes, and rollbacks after failures."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from millrace.drivers.failure_history import AUTHOR
from millrace.lake.deployments import OUTRUN, DeploymentStore, SlotsInUse
from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.errors import Conflict, MillraceError


def check_quota(content: Deployment, in_use: SlotsInUse, quota: int | None) -> None:
    """Refuse a person's change to more slots than the quota leaves.

    Args:
        content: The requested content.
        in_use: Slots that all pipelines hold.
        quota: The spec's ``guards.max_total_slots``.

    Raises:
        MillraceError: If it does not fit; the message contains the quota, the slots of each pipeline and a remedy.
    """
    name = content.pipeline
    left = _left(name, in_use, quota)
    if left is None or content.slots <= left:
        return
    holders = ", ".join(f"{d.pipeline} {d.slots}" for d in in_use.others(name) if d.slots)
    allowed = f"at most {left}: the quota of all pipelines is {quota}; the others hold {holders or 'none'}"
    remedy = f"Use fewer, stop or scale down another pipeline, or raise guards.max_total_slots in {name}'s spec."
    raise MillraceError("slots", content.slots, allowed, remedy)


def restore(store: DeploymentStore, former: Deployment, current: Deployment, quota: int | None) -> Deployment | None:
    """Commit a former content in place of ``current``, with as many of its slots as the quota leaves.

    Each app gets at least the slots that it has now, unless it had fewer then.

    Args:
        store: Takes the commit.
        former: The content wanted, with author and reason.
        current: The version that it replaces.
        quota: The spec's ``guards.max_total_slots``.

    Returns:
        The new version; None if ``current`` is no longer the newest.

    Raises:
        Conflict: If :data:`~millrace.lake.deployments.MOST_ATTEMPTS` other changes came first.
    """
    for in_use in store.attempts():
        latest = in_use.latest(current.pipeline)
        if latest is None or latest.version != current.version:
            return None
        with suppress(Conflict):
            content = _shrunk(former, current, _left(current.pipeline, in_use, quota))
            return store.commit(content, current.version, in_use)
    raise Conflict(OUTRUN)


def go_back(
    store: DeploymentStore, current: Deployment, app: str, version: int, reason: str, quota: int | None
) -> bool:
    """Commit an app's content of a former version again; other apps, and what needs no restart, did not fail.

    Args:
        store: Takes the commit.
        current: The version that failed.
        app: The app that failed.
        version: The version whose content is wanted.
        reason: One sentence.
        quota: The spec's ``guards.max_total_slots``.

    Returns:
        Whether the former version exists and has the app. If someone else has committed a version, that version
        counts, unless it is the reconciler's own because another app has failed as well.
    """
    former = store.get(current.pipeline, version)
    if former is None or app not in former.apps:
        return False
    with suppress(Conflict):
        latest = store.latest(current.pipeline)
        while latest is not None and _has_failed_too(latest, current, app):
            if restore(store, _with_app_of(former, latest, app, reason), latest, quota) is not None:
                break
            latest = store.latest(current.pipeline)
    return True


def _has_failed_too(latest: Deployment, failed: Deployment, app: str) -> bool:
    """Return whether the newest version is the one that failed, or has the same content of the app."""
    others_failed = latest.author == AUTHOR and latest.running and latest.apps.get(app) == failed.apps.get(app)
    return latest.version == failed.version or others_failed


def _with_app_of(former: Deployment, latest: Deployment, app: str, reason: str) -> Deployment:
    join = former.join and (latest.join or former.join)
    return replace(
        former,
        apps={**latest.apps, app: former.apps[app]},
        running=True,
        detached=False,
        source=latest.source,
        author=AUTHOR,
        decision_id=None,
        reason=reason,
        ingest=latest.ingest,
        join=join,
        partitioning=latest.partitioning,
        contingencies=None,
        origin=None,
    )


def _left(pipeline: str, in_use: SlotsInUse, quota: int | None) -> int | None:
    return None if quota is None else in_use.left(pipeline, quota)


def _shrunk(former: Deployment, current: Deployment, left: int | None) -> Deployment:
    if left is None or former.slots <= left:
        return former
    least = {name: _least(app, current.apps.get(name)) for name, app in former.apps.items()}
    spare = left - sum(least.values())
    apps: dict[str, AppDeployment] = {}
    for name, app in sorted(former.apps.items()):
        more = max(0, min(app.slots - least[name], spare))
        spare -= more
        apps[name] = replace(app, slots=least[name] + more)
    return replace(former, apps=apps)


def _least(former: AppDeployment, current: AppDeployment | None) -> int:
    return min(former.slots, current.slots if current else 1)
