"""Find changes of a spec and its script since they were taken over, at each evaluation and for ``status``.

Slots, placement, the executors' memory and a join's settings stay as they were tuned, and so do batch limits unless the
script changes.
The number of state partitions has its own mode (``rescale``). The parts that an evaluation reads (bounds, objective,
tuner, guards) apply at once anyway, and so does the size of a fleet's nodes, which is never tuned.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from millrace.model.codec import to_json
from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.spec import PipelineSpec


@dataclass(frozen=True)
class SpecUpdate:
    """A newer spec or script.

    Attributes:
        content: The newest Deployment with it.
        sentence: The changes, for a person.
    """

    content: Deployment
    sentence: str


def described(spec: PipelineSpec) -> Deployment:
    """Return the first Deployment of a spec, with hashes of its settings and of its script as it is now."""
    first = spec.first_deployment()
    nodes, function = ((), "") if spec.fleet is None else (spec.fleet.node_names, spec.fleet.script)
    apps = {
        name: replace(first.apps[name], script_hash=_script_hash(of_app, function if name in nodes else of_app.script))
        for name, of_app in spec.app_specs.items()
    }
    return replace(first, apps=apps, source=_source(spec, apps))


def with_adapted(first: Deployment, spec: PipelineSpec, before: Deployment) -> Deployment:
    """Return first content with a former version's join settings and maps of keys, as far as the spec allows them."""
    join = first.join if spec.join is None or before.join is None else spec.join.kept(before.join)
    return replace(first, join=join, partitioning=before.partitioning if spec.partitioning else {})


def within_budget(
    spec: PipelineSpec, content: Deployment, before: Deployment | None, now: datetime | None = None
) -> Deployment:
    """Return content that fits the pipeline's budget: the apps with the most slots make room for new ones.

    Args:
        spec: The pipeline.
        content: A running Deployment with the slots that each app would have.
        before: Its newest Deployment; the new one may have as many slots, even if the budget is lower now.
        now: The present (UTC); None for the widest bounds of all times.
    """
    bounds, most = spec.bounds_by_app(now), slots_allowed(spec, before)
    while content.slots > most:
        larger = [n for n, app in content.apps.items() if app.slots - bounds[n].step >= bounds[n].min_slots]
        kept = [name for name in larger if before is not None and name in before.apps]
        if not kept:
            break
        largest = max(kept, key=lambda name: content.apps[name].slots)
        app = content.apps[largest]
        smaller = replace(app, slots=app.slots - bounds[largest].step)
        content = replace(content, apps={**content.apps, largest: smaller})
    return content


def slots_allowed(spec: PipelineSpec, before: Deployment | None) -> float:
    """Return the most slots that a pipeline's apps may have together: those of its budget, or as many as now."""
    return math.inf if spec.budget is None else max(spec.budget.slots, 0 if before is None else before.slots)


def spec_update(spec: PipelineSpec, current: Deployment) -> SpecUpdate | None:
    """Return the changes of the spec and its script since ``current`` took them over; None if there are none.

    Args:
        spec: The pipeline as its file says now.
        current: Its newest Deployment; one without a spec (made by a test or a benchmark) stays as it is.
    """
    wanted = described(spec)
    if not current.kept_running or not current.source:
        return None
    content, apps, changed = current, dict(current.apps), list[str]()
    adapted = with_adapted(wanted, spec, current)
    if current.source != wanted.source:
        apps, changed = _apps(spec, wanted, current)
        content = replace(current, join=adapted.join, source=wanted.source)
    nodes = () if spec.fleet is None else spec.fleet.node_names
    other = {name for name in nodes if name in apps and apps[name].slots != wanted.apps[name].slots}
    if other:
        apps |= {name: replace(apps[name], slots=wanted.apps[name].slots) for name in other}
        changed.append("fleet.node.slots")
    if changed:
        content = within_budget(spec, replace(content, apps=apps), current)
        smaller = [name for name, app in content.apps.items() if app.slots != apps[name].slots]
        changed += [f"{name}: slots" for name in smaller]
        content = replace(content, contingencies=None if smaller else content.contingencies)
    if adapted.partitioning != current.partitioning:
        content = replace(content, partitioning=adapted.partitioning)
        changed.append("partitioning")
    if not changed:
        return None
    return SpecUpdate(content, f"{_listed(changed)} changed since version {current.version} of {spec.name}")


def _apps(spec: PipelineSpec, wanted: Deployment, current: Deployment) -> tuple[dict[str, AppDeployment], list[str]]:
    """Return the apps as the spec wants them, and their changed parts under names that a person knows."""
    apps: dict[str, AppDeployment] = {}
    changed: list[str] = []
    for name, of_app in spec.app_specs.items():
        before = current.apps.get(name)
        apps[name] = wanted.apps[name] if before is None else _taken_over(of_app, wanted.apps[name], before)
        lead = f"{name}: " if spec.apps else ""
        if before is None:
            changed.append(f"the apps (with {name})")
        else:
            parts = _parts(before, apps[name])
            changed += [f"{lead}{part}" for part, values in parts.items() if values[0] != values[1]]
    return apps, changed + [f"the apps (without {name})" for name in current.apps if name not in apps]


def _taken_over(spec: PipelineSpec, wanted: AppDeployment, before: AppDeployment) -> AppDeployment:
    """Return what runs, with the script, arguments, memory and submit settings of the spec."""
    executor, submit = before.executor, wanted.submit
    if (wanted.executor is None) != (executor is None):  # only a launch moves an app to a cluster or back
        submit = {**submit, "master": before.submit.get("master")}
    elif wanted.executor is not None and executor is not None:
        executor = replace(executor, cores=wanted.executor.cores)
    is_same = (before.script, before.script_hash, before.args) == (wanted.script, wanted.script_hash, wanted.args)
    return replace(
        before,
        script=wanted.script,
        script_hash=wanted.script_hash,
        args=wanted.args,
        memory_mb=before.memory_mb if "memory_mb" in spec.owners else wanted.memory_mb,
        submit=submit,
        executor=executor,
        standby=wanted.standby,
        batch_limits=before.batch_limits if is_same and spec.submit.tune_batches else {},
    )


def _parts(before: AppDeployment, after: AppDeployment) -> dict[str, tuple[object, object]]:
    """Return the parts of an app under names that a person knows, with their values before and after."""
    parts: dict[str, tuple[object, object]] = {
        "the script": ((before.script, before.script_hash), (after.script, after.script_hash)),
        "args": (before.args, after.args),
        "memory_mb": (before.memory_mb, after.memory_mb),
        "executor": (before.executor, after.executor),
        "fleet.nodes": (before.standby, after.standby),
    }
    for key in sorted({*before.submit, *after.submit}):
        parts[f"submit.{key}"] = to_json(before.submit.get(key)), to_json(after.submit.get(key))
    return parts


def _listed(names: list[str]) -> str:
    text = ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]
    return text[0].upper() + text[1:]


def _script_hash(spec: PipelineSpec, script: str) -> str:
    """Return the hash of a script and its py_files on this machine; empty for Millrace's own or an unreadable one."""
    if spec.join is not None:
        return ""
    whole = hashlib.sha256()
    with suppress(OSError):
        whole.update(Path(script).read_bytes())
        for file in filter(Path.is_file, map(Path, spec.submit.py_files)):
            whole.update(file.read_bytes())
        return whole.hexdigest()[:16]
    return ""


def _source(spec: PipelineSpec, apps: Mapping[str, AppDeployment]) -> str:
    said: list[tuple[object, ...]] = []
    for name, of_app in spec.app_specs.items():
        app, submit = apps[name], of_app.submit.model_dump(mode="json", exclude_defaults=True)
        cores = None if app.executor is None else app.executor.cores
        own = (name,) if spec.apps else ()
        standby = (True,) if app.standby else ()
        said.append((*own, app.script, app.script_hash, app.args, app.memory_mb, submit, cores, *standby))
    return hashlib.sha256(to_json(said if spec.apps else said[0]).encode()).hexdigest()[:16]
