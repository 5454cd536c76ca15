"""Flink's autoscaler drives the simulated plant as any tuner does."""

from __future__ import annotations

import pytest

from benchmarks.flink.autoscaler import FlinkAutoscaler
from benchmarks.simulation.plant import SimulatedPlant
from benchmarks.simulation.run import drive
from benchmarks.simulation.scenario import Scenario
from benchmarks.simulation.shape import Link, Shape, Vertex
from benchmarks.simulation.workload import stepwise

# the first run on a machine fetches 17 MB
pytestmark = pytest.mark.slow

UNITS = {"left": 500.0, "right": 200.0}
JOINED = Shape(
    "joined",
    tuple(Vertex(name) for name in (*UNITS, "parse", "join", "sink")),
    (Link("left", "parse"), Link("parse", "join", 0.8), Link("right", "join"), Link("join", "sink", 1.2)),
    UNITS,
)


def test_drive_when_the_load_steps_then_each_level_is_reached_and_no_change_is_refused() -> None:
    if not (found := FlinkAutoscaler.available()):
        pytest.skip(found.reason)
    scenario = Scenario("steps", JOINED, stepwise(tuple(UNITS.values()), [2, 8, 3, 10, 1]))
    run = drive(SimulatedPlant(scenario, seed=1), FlinkAutoscaler())
    levels = {step.rates: step.adequate for step in run.steps}
    assert len(levels) == 5 and all(levels.values())
    assert not any(step.refused for step in run.steps)
    assert 2 <= sum(step.reconfigures for step in run.steps) <= 10
    # it scales down again, too
    assert sum(run.steps[-1].after) < max(sum(step.after) for step in run.steps)
