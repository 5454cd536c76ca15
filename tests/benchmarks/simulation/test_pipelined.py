from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulation.noise import Window
from benchmarks.simulation.pipelined_truth import PipelinedTruth
from benchmarks.simulation.plant import SimulatedPlant
from benchmarks.simulation.scenario import Scenario
from benchmarks.simulation.scenarios import scenario
from benchmarks.simulation.shape import Link, Shape, Vertex
from benchmarks.simulation.workload import Workload
from tests.benchmarks.simulation.cases import TEN, app, case, chain, joined, observe, operator, set_p
from tests.examples import examples

MULTIPLES = st.lists(st.just(0.0) | st.floats(0.001, 12.0), min_size=1, max_size=4)


def at(scenario: Scenario, *levels: int) -> SimulatedPlant:
    """A plant that has been running at these levels from the start."""
    units = dict(zip(scenario.units, levels, strict=True))
    return SimulatedPlant(Scenario(**{**vars(scenario), "start_p": units}), 0)


def test_rates_when_everything_keeps_up_then_all_arrivals_pass_and_nothing_waits() -> None:
    seen = observe(at(case(chain("map", "sink", ratio=0.5), [4.0]), 5, 5))
    first = operator(seen, "map")
    assert (app(seen).arrival_rows_per_s, app(seen).processed_rows_per_s, app(seen).backlog_rows) == (400, 400, 0)
    assert (first.rows_in_per_s, first.rows_out_per_s) == (400, 200)
    assert (first.throughput, first.output_throughput) == pytest.approx((500, 250))
    assert (first.busy_ratio, first.backpressured_ratio) == pytest.approx((0.8, 0.0))
    assert first.useful_s_per_row == pytest.approx(5 / 500)
    assert app(seen).slot_busy_ratio == pytest.approx(0.8) and app(seen).backpressured_ratio == 0


def test_backlog_when_an_operator_is_too_small_then_grows_at_the_source_and_downstream_sees_only_passed_rows() -> None:
    seen = observe(at(case(chain("map", "slow", "sink"), [8.0]), 10, 4, 10))
    source = operator(seen, "source")
    assert app(seen).backlog_rows == source.backlog_rows == (800 - 400) * 30
    assert app(seen).backlog_growth_rows_per_s == pytest.approx(400)
    assert [operator(seen, name).rows_in_per_s for name in ("source", "map", "slow", "sink")] == [400] * 4
    assert (source.arrival_rows_per_s, source.output_throughput) == pytest.approx((800, 800))
    assert app(seen).backpressured_ratio == source.backpressured_ratio == pytest.approx(0.5)
    # a full operator is busy, its upstream waits for it, its downstream is idle
    assert [operator(seen, n).busy_ratio for n in ("map", "slow", "sink")] == pytest.approx([0.4, 1.0, 0.4])
    assert [operator(seen, n).backpressured_ratio for n in ("map", "slow", "sink")] == pytest.approx([0.6, 0.0, 0.0])


def test_sources_when_one_operator_is_too_small_then_only_its_own_are_throttled() -> None:
    # the join takes 1000 of 2 x 800
    seen = observe(at(case(joined(), [8.0]), 10, 10, 5))  # units: map_a, other, join
    rates = {name: operator(seen, name).rows_in_per_s for name in ("a", "b", "c", "map_a", "join", "other")}
    assert rates == pytest.approx({"a": 500, "b": 500, "c": 800, "map_a": 500, "join": 1000, "other": 800})
    assert [operator(seen, s).backpressured_ratio for s in "abc"] == pytest.approx([0.375, 0.375, 0])


def test_downtime_when_p_is_set_then_nothing_is_processed_and_all_arrivals_wait() -> None:
    plant = at(case(chain("map"), [4.0]), 5)
    set_p(plant, 5 + 3)
    seen = observe(plant)
    # 10 s of downtime leave 4000 rows, and 800 - 400 rows per second drain them within the period
    assert app(seen).backlog_rows == 0 and app(seen).processed_rows_per_s == pytest.approx(400)
    assert seen.settling and app(seen).busy_ratio == pytest.approx(20 / 30)
    assert not observe(plant).settling
    down = [s for s in plant.segments if s.down]
    assert [(s.since, s.until, s.after) for s in down] == [(0.0, 10.0, (4000.0,))]
    drains = plant.segments[1]
    assert (drains.since, drains.until, drains.after) == (10.0, 20.0, (0.0,))


def test_restart_lag_when_it_drains_then_is_the_part_caused_by_the_restart() -> None:
    plant = at(case(chain("map"), [5.0]), 4)
    observe(plant)  # 30 s at 100 rows per second too few
    assert (app(observe(plant)).backlog_rows, app(observe(plant)).restart_lag_rows) == (6000, 0)
    set_p(plant, 6)
    seen = observe(plant)  # 10 s of downtime: 5000 rows; 20 s at 600
    assert app(seen).backlog_rows == 9000 + 5000 - 2000 and app(seen).restart_lag_rows == 5000 - 2000
    assert app(observe(plant)).restart_lag_rows == 0
    assert app(observe(plant)).backlog_rows == 9000 - 3000


def test_drain_when_all_arrivals_pass_then_is_backpressure_only_if_the_case_says_so() -> None:
    for counts, expected in ((False, 0.0), (True, 1.0)):
        plant = at(case(chain("map", "slow"), [10.0], drain_is_backpressure=counts), 20, 10)
        set_p(plant, 20, 11)
        observe(plant)
        seen = observe(plant)
        assert app(seen).backlog_rows and app(seen).slot_busy_ratio == 1.0
        assert app(seen).backpressured_ratio == expected
        assert operator(seen, "map").backpressured_ratio == pytest.approx(expected * (1 - 11 / 20))


def test_rate_when_it_changes_within_an_evaluation_then_reports_the_mean_and_an_exact_backlog() -> None:
    plant = at(case(chain("map"), Workload((0.0, 40.0), ((400.0,), (1000.0,)), (0.0,), 90.0)), 8)
    observe(plant)
    seen = observe(plant)
    assert app(seen).arrival_rows_per_s == pytest.approx((10 * 400 + 20 * 1000) / 30)
    assert app(seen).backlog_rows == 20 * 200


def test_window_when_it_emits_unevenly_then_its_mean_output_is_preserved_and_its_input_is_exact() -> None:
    shape = Shape(
        "windowed",
        (Vertex("source", TEN), Vertex("window", TEN, Window(0.2, 0.02, 0.25)), Vertex("sink", TEN)),
        (Link("source", "window"), Link("window", "sink", 0.5)),
        {"source": 100.0},
    )
    plant = at(case(shape, [4.0] * 100), 10, 10)
    edges = [[e.rows_per_s for e in app(observe(plant)).edges] for _ in range(1500)]
    assert {e[0] for e in edges} == {400.0}
    counted = [e[1] or 0.0 for e in edges]
    assert sum(counted) / len(counted) == pytest.approx(200, rel=0.03)
    assert sum(c < 10 for c in counted) > 200 and max(counted) > 300
    assert app(observe(plant)).backlog_rows == 0


@given(multiples=MULTIPLES, p=st.tuples(*[st.integers(1, 14)] * 3), again=st.tuples(*[st.integers(1, 14)] * 3))
@examples(60)
def test_rows_that_arrived_are_processed_or_waiting_and_rates_are_below_ability(
    multiples: list[float], p: tuple[int, int, int], again: tuple[int, int, int]
) -> None:
    workload = Workload(
        tuple(50.0 * i for i in range(len(multiples))),
        tuple((100.0 * m, 60.0 * m, 20.0 * (12 - m)) for m in multiples),
        (0.0,),
        50.0 * len(multiples) + 200,
    )
    plant = at(case(joined(), workload, reach={}), *p)
    arrived = processed = 0.0
    for i in range(int(workload.until / 30)):
        if i == 2:
            set_p(plant, *again)
        before = plant.now
        seen = app(observe(plant))
        arrived += (seen.arrival_rows_per_s or 0) * (plant.now - before)
        processed += (seen.processed_rows_per_s or 0) * (plant.now - before)
        assert arrived == pytest.approx(processed + (seen.backlog_rows or 0), abs=1.0)
        for told in seen.operators:
            if told.throughput is not None:
                assert (told.rows_in_per_s or 0) <= told.throughput * (1 + 1e-6)
            if told.arrival_rows_per_s is not None:
                assert 0 <= (told.backpressured_ratio or 0) <= 1
    for segment in plant.segments:
        assert min(segment.before) >= 0 and min(segment.after) >= 0 and segment.until > segment.since


@given(multiples=MULTIPLES, p=st.integers(1, 14), again=st.integers(1, 14))
@examples(40)
def test_backlog_when_compared_with_small_steps_then_is_the_same(multiples: list[float], p: int, again: int) -> None:
    times = tuple(37.0 * i for i in range(len(multiples)))
    workload = Workload(times, tuple((100 * m + 1,) for m in multiples), (0.0,), 37.0 * len(multiples) + 120)
    plant = at(case(chain("map"), workload, reach={}), p)
    truth = plant.truth
    assert isinstance(truth, PipelinedTruth)
    waiting, dt, down = 0.0, 0.05, 0.0
    for i in range(int(workload.until // 30)):
        if i == 1 and again != p:
            set_p(plant, again)
            down = plant.now + 10
        capacity = truth.capacities(plant.levels, (1.0,))[0]
        start = plant.now
        told = app(observe(plant)).backlog_rows or 0
        for k in range(int(30 / dt)):
            t = start + (k + 0.5) * dt
            passes = 0.0 if t < down else capacity
            waiting = max(0.0, waiting + (workload.rates[workload.at(t)][0] - passes) * dt)
        assert told == pytest.approx(waiting, abs=2 * dt * (capacity + max(100 * m + 1 for m in multiples)) + 1)


@given(p=st.integers(1, 12), less=st.integers(0, 11))
@examples(30)
def test_throttle_when_p_falls_then_only_reduces_throughput(p: int, less: int) -> None:
    made = case(joined(), [9.0])
    high, low = observe(at(made, 12, p, 12)), observe(at(made, 12, max(1, p - less), 12))
    for name in made.shape.order:
        assert (operator(low, name).rows_in_per_s or 0) <= (operator(high, name).rows_in_per_s or 0) * (1 + 1e-9)


def test_drift_when_ability_falls_then_the_same_p_processes_less() -> None:
    made = scenario("drift", 1)
    event = made.drift.events[0]
    plant = SimulatedPlant(Scenario(**{**vars(made), "start_p": 90, "noise": made.noise}), 1)
    before = observe(plant)
    while plant.now <= event.at_s:
        after = observe(plant)
    after = observe(plant)
    name = made.shape.sizable[0]
    fallen = (operator(after, name).throughput or 0) / (operator(before, name).throughput or 1)
    assert fallen == pytest.approx(0.75, abs=0.1)
