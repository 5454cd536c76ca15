from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from benchmarks.simulation.observed import PER_LEVEL, Observed
from benchmarks.simulation.plant import BEGIN, SimulatedPlant
from benchmarks.simulation.scenarios import scenario
from millrace.model.codec import to_json
from millrace.model.errors import MillraceError, NotReady
from millrace.model.protocols import Cursor, Plant
from millrace.model.signals import Observation
from tests.benchmarks.simulation.cases import app, case, chain, micro_batch, observe, observe_all, set_p


def test_plant_when_made_then_keeps_the_protocol_and_names_what_can_be_sized() -> None:
    plant: Plant = SimulatedPlant(scenario("dag12", 0), 0)
    assert isinstance(plant, SimulatedPlant)
    deployed = plant.deployment.apps["dag12"]
    assert set(deployed.parallelism) == set(plant.scenario.shape.sizable) and deployed.slots == 12
    whole = SimulatedPlant(scenario("dag12_mb", 0), 0).deployment.apps["dag12"]
    assert whole.parallelism == {} and whole.slots == 1


def test_evaluation_covers_a_period_and_every_operator_and_edge() -> None:
    plant = SimulatedPlant(scenario("dag12", 0), 0)
    first, second = observe(plant), observe(plant)
    assert (first.since, first.until) == (BEGIN, second.since)
    assert (second.until - second.since).total_seconds() == 30 and second.telemetry_version == 2
    seen = app(second)
    assert {o.operator for o in seen.operators} == set(plant.scenario.shape.order) and len(seen.edges) == 17
    assert seen.slots == plant.deployment.apps["dag12"].slots
    sources = {o.operator for o in seen.operators if o.arrival_rows_per_s is not None}
    assert (
        sources == {o.operator for o in seen.operators if o.backlog_rows is not None} == {"clicks", "orders", "stock"}
    )


def test_observations_are_the_last_ten_of_each_level_oldest_first() -> None:
    plant = SimulatedPlant(scenario("dag12", 0), 0)
    for i, seen in enumerate(observe_all(plant)):
        counts = Counter((o.operator, o.parallelism) for o in seen.observations)
        assert all(n <= PER_LEVEL for n in counts.values())
        assert all(a.time <= b.time for a, b in pairwise(seen.observations))
        assert all(o.time < seen.until for o in seen.observations)
        if i in (20, 40):
            assert max(counts.values()) == PER_LEVEL and len(counts) == 12 * (i // 20)
            assert {o.operator for o in seen.observations} == {f"dag12/{n}" for n in plant.scenario.shape.sizable}
            set_p(plant, *[p + 1 for p in plant.levels])
        if i == 60:
            break


def test_observed_when_a_level_is_full_then_forgets_only_its_oldest() -> None:
    kept = Observed()
    points = [Observation("a", 1 + (i == 0), float(i), 0.0, 1, BEGIN) for i in range(PER_LEVEL + 3)]
    for point in points:
        kept.add([point])
    assert kept.recent() == (points[0], *points[3:])


def test_observations_when_a_period_holds_a_downtime_then_none_is_taken_from_it() -> None:
    plant = SimulatedPlant(case(chain("map"), [5.0]), 0)
    observe(plant)
    set_p(plant, 7)
    assert observe(plant).settling
    assert {o.parallelism for o in observe(plant).observations} == {1}
    assert {o.parallelism for o in observe(plant).observations} == {1, 7}


@pytest.mark.parametrize("name", ["paper", "dag12", "window_noise", "paper_mb"])
def test_run_when_repeated_then_reports_exactly_the_same(name: str) -> None:
    told = []
    for _ in range(2):
        plant = SimulatedPlant(scenario(name, 1), 4)
        told.append([to_json(s) for s, _ in zip(observe_all(plant), range(12), strict=False)])
    assert told[0] == told[1]
    other = SimulatedPlant(scenario(name, 1), 5)
    assert to_json(next(observe_all(other))) != told[0][0]


def test_noise_when_other_levels_are_set_then_is_the_same() -> None:
    ratios = []
    for levels in ((3, 3), (9, 20)):
        plant = SimulatedPlant(scenario("paper", 1), 0)
        observe(plant)
        set_p(plant, *levels)
        for _ in range(5):
            seen = app(observe(plant))
        measured = [o.throughput or 0.0 for o in seen.operators if o.throughput]
        true = [plant.truth.ability(u)[p - 1] for u, p in zip(plant.scenario.units, levels, strict=True)]
        ratios.append([m / t for m, t in zip(measured, true, strict=True)])
    assert ratios[0] == pytest.approx(ratios[1])


def test_apply_when_p_changes_then_reports_the_cost_and_deploys_it() -> None:
    plant = SimulatedPlant(case(chain("map"), [5.0]), 0)
    observe(plant)
    target = replace(plant.deployment, version=2, decision_id="d")
    (done,) = plant.apply(
        replace(target, apps={"chain": replace(target.apps["chain"], parallelism={"map": 4}, slots=99)})
    )
    assert (done.from_version, done.to_version, done.downtime_s, done.decision_id) == (1, 2, 10.0, "d")
    assert plant.deployment.version == 2 and plant.deployment.apps["chain"].slots == 4 and plant.levels == (4,)
    assert observe(plant).deployment_version == 2


def test_apply_when_nothing_differs_then_costs_nothing() -> None:
    plant = SimulatedPlant(case(chain("map"), [5.0]), 0)
    assert plant.apply(replace(plant.deployment, version=2)) == ()
    assert not observe(plant).settling


@pytest.mark.parametrize("p", [0, 91])
def test_apply_when_out_of_bounds_then_is_refused(p: int) -> None:
    plant = SimulatedPlant(case(chain("map"), [5.0]), 0)
    with pytest.raises(MillraceError, match="1 to 90"):
        set_p(plant, p)


def test_apply_when_the_app_is_missing_then_is_refused() -> None:
    plant = SimulatedPlant(case(chain("map"), [5.0]), 0)
    with pytest.raises(MillraceError, match="chain"):
        plant.apply(replace(plant.deployment, apps={}))


def test_evaluation_when_the_workload_has_ended_then_is_not_ready() -> None:
    plant = SimulatedPlant(micro_batch([5.0]), 0)
    list(observe_all(plant))
    assert plant.now == 600
    with pytest.raises(NotReady):
        plant.observe(Cursor())
