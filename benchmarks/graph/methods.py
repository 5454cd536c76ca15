"""Ways to size a pipeline of several apps: ours, and rivals that get the same apps, bounds, goals and start."""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from benchmarks.graph.workloads import Workload
from millrace.model.spec import PipelineSpec
from millrace.pipelines.catalog import load

WAIT, RESULTS = "--wait-ms=", "--results"


@dataclass(frozen=True)
class Method:
    """A way to size the apps.

    Attributes:
        name: The method.
        tuner: Registry name of the optimizer that sizes the apps; None if their slots never change.
        apart: Whether each app is a pipeline of its own.
    """

    name: str
    tuner: str | None
    apart: bool = False


OURS = Method("flow", "flow")
CASCADE = Method("cascade", "flow", apart=True)
FIXED = Method("fixed_peak", None)
METHODS = (OURS, CASCADE, Method("ds2", "ds2"), Method("dhalion", "dhalion"), Method("conttune", "conttune"), FIXED)
QUICK_METHODS = (OURS, CASCADE)


def specs_for(
    method: Method, workload: Workload, home: Path, period_s: float, peak_rows_per_s: float
) -> list[PipelineSpec]:
    """Return the pipelines of a method: one, or one per app. Pipelines cannot share a budget, so no method has one.

    Args:
        method: The method.
        workload: The apps.
        home: Folder of the home.
        period_s: Seconds between two evaluations.
        peak_rows_per_s: Highest rate of the feed; fixed slots are enough for it.
    """
    whole = load(workload.spec, {"MILLRACE_HOME": str(home)})
    shared: dict[str, Any] = {"period_s": period_s}
    if method.tuner not in (None, whole.tuner.name):
        shared["tuner"] = {"name": method.tuner}
    slots = {}
    for app, spec in whole.app_specs.items():
        busy = peak_rows_per_s * workload.rows_per_row[app] * wait_s(spec)
        slots[app] = spec.slots.model_dump() | ({} if method.tuner else {"start": slots_for(spec, busy)})
    if not method.apart:
        keys = whole.model_dump(exclude_unset=True, exclude={"budget"}) | shared
        apps = {app: section | {"slots": slots[app]} for app, section in keys["apps"].items()}
        return [PipelineSpec.model_validate(keys | {"apps": apps})]
    # each app gets an equal part of the goal: the fixed costs of its batches are not known before it runs
    goal = whole.objective.model_dump() | {"max_lag_s": whole.objective.max_lag_s / longest_path(whole)}
    return [
        PipelineSpec.model_validate(
            spec.model_dump(exclude_unset=True)
            | shared
            | {"name": f"{whole.name}_{app}", "objective": goal, "slots": slots[app]}
        )
        for app, spec in whole.app_specs.items()
    ]


def wait_s(spec: PipelineSpec) -> float:
    """Return the real wait per row of an app, seconds."""
    (wait,) = (arg.removeprefix(WAIT) for arg in spec.args if arg.startswith(WAIT))
    return float(wait) / 1000


def slots_for(spec: PipelineSpec, busy: float) -> int:
    """Return the fewest slots on which an app can keep ``busy`` of them busy; its most slots if no number is enough.

    Slots that do not shorten a batch are useless: a batch has ``max_parallelism`` tasks, which run in waves.
    """
    bounds, tasks = spec.bounds_contract(), spec.max_parallelism
    needed = busy / spec.objective.target_utilisation
    return next((n for n in bounds.levels if tasks / -(-tasks // n) >= needed), bounds.max_slots)


def longest_path(whole: PipelineSpec) -> int:
    """Return the most apps that a row passes, by the tables that their arguments name."""
    paths = {app: [arg.partition("=")[::2] for arg in spec.args] for app, spec in whole.app_specs.items()}
    writes = {value: app for app, args in paths.items() for name, value in args if name == RESULTS}
    reads = {app: {writes[v] for name, v in args if name != RESULTS and v in writes} for app, args in paths.items()}
    length: dict[str, int] = {}
    for app in TopologicalSorter(reads).static_order():
        length[app] = 1 + max((length[producer] for producer in reads[app]), default=0)
    return max(length.values())
