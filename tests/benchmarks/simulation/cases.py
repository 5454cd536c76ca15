"""Cases with round figures: PA(p) = 100 p of an operator with one source, without noise unless requested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from benchmarks.simulation.ability import Families, power
from benchmarks.simulation.noise import Noise
from benchmarks.simulation.plant import SimulatedPlant
from benchmarks.simulation.scenario import MICRO_BATCH, PLANNED, MicroBatch, Scenario
from benchmarks.simulation.shape import Link, Shape, Vertex
from benchmarks.simulation.workload import Workload, stepwise
from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import Change, Deployment
from millrace.model.errors import NotReady
from millrace.model.objective import Objective
from millrace.model.protocols import Cursor
from millrace.model.signals import AppSignals, OperatorSignals, Signals

EXACT = Noise(sd=0.0)
SMOOTH = Families({"power": 1.0}, wiggle_sd=0.0)
TEN = (10.0, 10.0)


def chain(*operators: str, unit: float = 100.0, ratio: float = 1.0) -> Shape:
    """A source and operators in a row; every operator uses 10 slots at the peak."""
    names = ("source", *operators)
    links = tuple(Link(a, b, 1.0 if a == "source" else ratio) for a, b in pairwise(names))
    return Shape("chain", tuple(Vertex(name, TEN) for name in names), links, {"source": unit})


def joined() -> Shape:
    """Two sources with a map each and one join: a -> map_a -> join <- b; a third source is separate."""
    names = ("a", "b", "c", "map_a", "join", "other")
    links = (Link("a", "map_a"), Link("map_a", "join"), Link("b", "join"), Link("c", "other"))
    return Shape("joined", tuple(Vertex(n, TEN) for n in names), links, {"a": 100.0, "b": 100.0, "c": 100.0})


def case(shape: Shape, multiples: list[float] | Workload, **changes: Any) -> Scenario:
    """Every operator processes ten unit rates of its input with 10 slots, whatever the multiples are."""
    workload = multiples
    if not isinstance(multiples, Workload):
        workload = stepwise(tuple(shape.units.values()), multiples)
    assert isinstance(workload, Workload)
    most = max(m / u for m, u in zip(workload.peak, shape.units.values(), strict=True)) or 10.0
    reach = dict.fromkeys(shape.sizable, 10 / most)
    values: dict[str, Any] = {
        "noise": EXACT,
        "families": SMOOTH,
        "curves": {name: power(1.0) for name in shape.sizable},
        "reach": reach,
    }
    return Scenario("case", shape, workload, **(values | changes))


def micro_batch(multiples: list[float], **options: Any) -> Scenario:
    """One operator with PA(p) = 100 p, o = 2 s at any p."""
    made = MicroBatch(fixed_s=(2.0, 2.0), fixed_growth=0.0, slots=(10.0, 10.0), **options)
    peak = max(multiples)
    plain = case(chain("map"), multiples, execution=MICRO_BATCH, objective=PLANNED, micro_batch=made)
    # scaled to meet the peak at 10 slots and the target utilisation
    return replace(plain, reach={"map": PLANNED.target_utilisation * 10 / peak})


def aims(**changes: float) -> Objective:
    return replace(PLANNED, **changes)  # type: ignore[arg-type]


def observe(plant: SimulatedPlant) -> Signals:
    return plant.observe(Cursor())


def observe_all(plant: SimulatedPlant) -> Iterator[Signals]:
    """All evaluations that are ready."""
    while not plant.finished:
        try:
            yield observe(plant)
        except NotReady:
            continue


def app(signals: Signals) -> AppSignals:
    return signals.apps[0]


def operator(signals: Signals, name: str) -> OperatorSignals:
    return next(o for o in app(signals).operators if o.operator == name)


def set_p(plant: SimulatedPlant, *levels: int) -> None:
    """Apply a p for every unit."""
    name, scenario = plant.scenario.shape.name, plant.scenario
    whole = scenario.execution == MICRO_BATCH
    changes = tuple(
        Change(name, scenario.sizes_by, before, p, None if whole else unit)
        for unit, before, p in zip(scenario.units, plant.wanted, levels, strict=True)
    )
    target = plant.deployment.with_changes(changes)
    plant.apply(replace(target, version=target.version + 1))


class Scripted:
    """An optimizer that follows a script, by number of the evaluation."""

    def __init__(self, script: Mapping[int, tuple[int, ...]], plant: SimulatedPlant) -> None:
        self.script, self.plant, self.evaluation = script, plant, 0

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        self.evaluation += 1
        scenario = self.plant.scenario
        whole = scenario.execution == MICRO_BATCH
        wanted = self.script.get(self.evaluation, self.plant.wanted)
        changes = tuple(
            Change(scenario.shape.name, scenario.sizes_by, before, p, None if whole else unit)
            for unit, before, p in zip(scenario.units, self.plant.wanted, wanted, strict=True)
            if p != before
        )
        return Proposal("scripted", changes, "scripted", "As the script says."), memory
