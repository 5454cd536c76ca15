"""The methods of the benchmark by name, and how each is created.

To be fair, rivals get the true arrival rate (unless the method hides it by its nature), thresholds for the execution
mode, the owner's target utilisation if they have no such setting, and a rule that stops them (``conttune_strong``,
``ds2_stop``; their plain forms are measured as well).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.conttune.wrapped import Planned, Rested
from benchmarks.flink.autoscaler import FlinkAutoscaler
from benchmarks.flink.settings import COMPARED
from benchmarks.simulation.oracle import Oracle
from benchmarks.simulation.plant import SimulatedPlant
from benchmarks.simulation.scenario import MICRO_BATCH
from millrace.model.protocols import Optimizer
from millrace.optimizers.registry import create

Make = Callable[[SimulatedPlant], Optimizer]

ROOMS = (5, 10, 20, 30)
"""Percent of the target utilisation that flow leaves free, for its frontier."""
DS2_FACTORS = (10, 20)
STRONG_HEADROOMS = (10, 20)
"""Percent that rivals add, for their frontiers."""

PIPELINED_STATES = {"core_min_thr": 0.85, "core_max_thr": 0.95, "backpressure_thr": 0.01}
"""ContTune's thresholds for operators with their own slots: busy time is work, and anything held back is backlog."""


@dataclass(frozen=True)
class Method:
    """A method.

    Attributes:
        name: Its name in the records.
        make: Makes a new one for a plant; only the oracle looks inside the plant.
        micro_batch: Whether it can size an app whose stages take turns on its slots.
    """

    name: str
    make: Make
    micro_batch: bool = True


def _registered(registry: str, **options: Any) -> Make:
    return lambda plant: create(registry, options)


def _spare(plant: SimulatedPlant, room: float) -> float:
    """Return what a rival without a target utilisation must add to lambda to plan for one, with some headroom."""
    return (1 + room) / plant.scenario.objective.target_utilisation - 1


def _conttune(room: float = 0.0, **options: Any) -> Make:
    """Return a maker of ContTune, by default the literal version."""

    def make(plant: SimulatedPlant) -> Optimizer:
        states = {} if plant.scenario.execution == MICRO_BATCH else PIPELINED_STATES
        return create("conttune", {**states, "headroom": _spare(plant, room), **options})

    return make


def _ds2(plant: SimulatedPlant) -> Optimizer:
    return create("ds2", {"factor": _spare(plant, 0.0)})


def _ds2_stop(room: float = 0.0) -> Make:
    """Return a maker of DS2 with a stopping rule; as published it reacts to the noise of every evaluation."""
    return lambda plant: Rested(create("ds2", {"factor": _spare(plant, room)}))


def _random(plant: SimulatedPlant) -> Optimizer:
    """Return random search within ContTune's p_max: binary lifting from 1 until the peak rate is served."""
    factors = (1.0,) * len(plant.scenario.shape.sizable)
    most = max(plant.truth.minimum(plant.scenario.workload.peak, factors))
    lifted = 1 << (most - 1).bit_length()
    return create("random", {"p_max": min(lifted, plant.scenario.bounds.max_slots)})


def _room(percent: int) -> Make:
    """Return flow with headroom. It may use half before a step up; a step down must free at least as much."""
    options = {"spend": 0.5, "slack": max(0.1, percent / 100)}
    return lambda plant: Planned(create("flow", options), 1 - percent / 100)


def _flink(index: int) -> Make:
    def make(plant: SimulatedPlant) -> Optimizer:
        return FlinkAutoscaler(replace(COMPARED[index], downtime_s=plant.scenario.downtime_s))

    return make


FLINK = tuple(settings.name for settings in COMPARED)
FLOW_FRONTIER = ("flow_risk50", "flow", *(f"flow_r{room:02d}" for room in ROOMS))
DS2_FRONTIER = ("ds2_stop", *(f"ds2_stop_f{factor}" for factor in DS2_FACTORS))
STRONG_FRONTIER = ("conttune_strong", *(f"conttune_strong_h{room}" for room in STRONG_HEADROOMS))
FRONTIERS: Mapping[str, tuple[str, ...]] = {
    "flow": FLOW_FRONTIER,
    "Flink": FLINK,
    "ContTune": STRONG_FRONTIER,
    "DS2": DS2_FRONTIER,
}
"""Settings of one tuner with increasing headroom, by the tuner's display name."""

UNCONSTRAINED = float("inf")
"""alpha of the paper's rival CEI: Bayesian optimisation without the conservative part."""

_METHODS = (
    Method("oracle", Oracle),
    Method("flow", _registered("flow")),
    Method("flow_proactive", _registered("flow", proactive=True, slack=0.3, spend=0.6)),
    Method("flow_risk50", _registered("flow", risk=0.5)),
    *(Method(f"flow_r{room:02d}", _room(room)) for room in ROOMS),
    Method("conttune_strong", _conttune(preset="strong")),
    *(Method(f"conttune_strong_h{h}", _conttune(h / 100, preset="strong")) for h in STRONG_HEADROOMS),
    Method("conttune_3", _conttune(alpha=3.0)),
    Method("conttune_0", _conttune(alpha=0.0)),
    Method("conttune_3_no_topk", _conttune(alpha=3.0, top_k=1)),
    Method("conttune_3_eq4", _conttune(alpha=3.0, acquisition="cei")),
    Method("big_ds2", _conttune(small="linear")),
    Method("cei", _conttune(alpha=UNCONSTRAINED, acquisition="cei")),
    Method("ds2", _ds2),
    Method("ds2_stop", _ds2_stop()),
    *(Method(f"ds2_stop_f{factor}", _ds2_stop(factor / 100)) for factor in DS2_FACTORS),
    Method("dhalion", _registered("dhalion")),
    Method("dragster", _registered("dragster")),
    Method("random", _random),
    *(Method(name, _flink(i), micro_batch=False) for i, name in enumerate(FLINK)),
)
METHODS: Mapping[str, Method] = {method.name: method for method in _METHODS}


def family(name: str) -> str | None:
    """Return the display name of a method's tuner if it has a frontier, else None."""
    if name == "ds2":
        return "DS2"
    return next((tuner for tuner, names in FRONTIERS.items() if name in names), None)


def room(name: str) -> str:
    """Return a short label for the setting of a frontier point, for a picture."""
    found = re.search(r"_(r|f|h|risk)(\d+)$", name)
    if found:
        return {"r": "-", "f": "+", "h": "+", "risk": "risk "}[found[1]] + found[2] + " %"
    return name.removeprefix("flink_").replace("_", "/") if name.startswith("flink_") else ""
