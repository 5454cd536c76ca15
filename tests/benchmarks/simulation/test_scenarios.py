from __future__ import annotations

import pytest

from benchmarks.simulation.plant import SimulatedPlant
from benchmarks.simulation.scenario import MICRO_BATCH, PIPELINED, Scenario
from benchmarks.simulation.scenarios import names, scenario
from benchmarks.simulation.shapes import q1
from benchmarks.simulation.workload import stepwise
from millrace.model.errors import MillraceError
from tests.benchmarks.simulation.cases import app, observe_all, set_p

RECORDED = [float(30 + i % 7) for i in range(120)]


@pytest.mark.parametrize("name", names())
def test_scenario_when_named_then_runs_with_its_execution(name: str) -> None:
    made = scenario(name, 1, RECORDED)
    assert made.name == name and made.execution == (MICRO_BATCH if name.endswith(("_mb", "_live")) else PIPELINED)
    plant = SimulatedPlant(made, 1)
    assert len([app(s) for s, _ in zip(observe_all(plant), range(3), strict=False)]) == 3
    assert made.workload.until % made.period_s == 0


def test_paper_has_36_runs_of_6_permutations_of_6_queries_with_20_tunings() -> None:
    made = [scenario("paper", i) for i in range(36)]
    assert {len(s.workload.tunings) for s in made} == {20}
    assert len({s.shape.name for s in made}) == 6
    assert len({(s.shape.name, s.workload.rates) for s in made}) == 36
    assert scenario("paper", 36).workload == made[0].workload
    assert [r[0] / 100e3 for r in made[0].workload.rates[:10]] == [9, 2, 3, 10, 1, 4, 5, 8, 6, 7]


def test_paper_warm_when_scored_then_counts_from_the_eleventh_tuning() -> None:
    assert scenario("paper_warm", 3).from_tuning == 10 and scenario("paper", 3).from_tuning == 0


def test_noise3_is_the_papers_with_three_times_the_noise() -> None:
    loud, plain = scenario("noise3", 7), scenario("paper", 7)
    assert loud.noise.relative == pytest.approx(3 * plain.noise.relative) and loud.workload == plain.workload


def test_drift_affects_one_or_all_and_is_gradual_in_the_second_cycle() -> None:
    events = [scenario("drift", i).drift.events[0] for i in range(18)]
    assert {(bool(e.operators), e.over_s > 0) for e in events} == {(True, False), (False, False), (False, True)}
    assert all(6000 < e.at_s < 12_000 and e.at_s % 600 == 300 and e.factor == 0.75 for e in events)


def test_plateau_when_made_then_its_three_highest_rates_cannot_be_reached() -> None:
    for i in range(6):
        made = scenario("plateau", i)
        plant = SimulatedPlant(made, i)
        (name,) = made.curves
        need = plant.scenario.shape.gains[made.units.index(name)][0]
        best = plant.truth.ability(name).max()
        reached = [m for m in range(1, 11) if need * m * next(iter(made.shape.units.values())) <= best]
        assert reached == list(range(1, 8))


@pytest.mark.parametrize("suffix", ["", "_mb"])
def test_executors_told_allows_only_whole_executors(suffix: str) -> None:
    steps = set()
    for i in range(16):
        plant = SimulatedPlant(scenario("executors_told" + suffix, i), i)
        made, bounds = plant.scenario, plant.scenario.bounds
        steps.add(bounds.step)
        assert all(p in bounds for p in made.start)
        ones = (1.0,) * len(made.shape.sizable)
        assert all(p in bounds for rates in made.workload.rates for p in plant.truth.minimum(rates, ones))
        set_p(plant, *(bounds.min_slots + bounds.step for _ in made.units))
        with pytest.raises(MillraceError, match="multiples of"):
            set_p(plant, *(bounds.min_slots + 1 for _ in made.units))
    assert steps == {2, 3, 4, 5}


def test_recorded_when_no_values_are_passed_then_says_so() -> None:
    with pytest.raises(MillraceError, match="etl"):
        scenario("etl", 0)


def test_recorded_when_passed_then_is_replayed_as_five_minute_maxima_within_wider_bounds() -> None:
    made = scenario("etl", 0, RECORDED)
    assert len(made.workload.times) == 24 and made.workload.until == 7200 and made.bounds.max_slots == 500


def test_phase_when_given_then_changes_fall_inside_evaluations() -> None:
    assert scenario("paper", 0, phase_s=11.0).workload.times[1] % 30 == 11


def test_scenario_when_unknown_or_invalid_then_is_refused() -> None:
    with pytest.raises(MillraceError, match="paper_warm"):
        scenario("papers")
    with pytest.raises(MillraceError, match="micro_batch"):
        Scenario("x", q1(), stepwise((1.0,), [1.0]), execution="batch")
    with pytest.raises(MillraceError, match="bids"):
        Scenario("x", q1(), stepwise((1.0, 2.0), [1.0]))
    with pytest.raises(MillraceError, match="period_s"):
        Scenario("x", q1(), stepwise((1.0,), [1.0]), period_s=0.0)
