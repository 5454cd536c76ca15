"""Hand-made runs with known figures: one operator of 100 rows/s per slot, downtime 10 s, evaluations every 30 s."""

from __future__ import annotations

import pytest

from benchmarks.simulation.plant import SimulatedPlant
from benchmarks.simulation.run import Run, drive
from benchmarks.simulation.scenario import Scenario
from benchmarks.simulation.score import score
from benchmarks.simulation.segment import Segment, extend
from benchmarks.simulation.workload import stepwise
from tests.benchmarks.simulation.cases import Scripted, case, chain


def driven(multiples: list[float], script: dict[int, tuple[int, ...]], **changes: object) -> Run:
    plant = SimulatedPlant(case(chain("map"), multiples, **changes), 0)
    return drive(plant, Scripted(script, plant))


def test_figures_when_nothing_happens_then_are_those_of_an_idle_run() -> None:
    figures = score(driven([5.0], {}, start_p=5))
    assert figures == pytest.approx(
        {
            "reconfigurations_per_tuning": 0,
            "reconfigurations_up": 0,
            "reconfigurations_down": 0,
            "bad_per_tuning": 0,
            "non_converged": 0,
            "tuning_s": 0,
            "core_seconds_vs_oracle": 1,
            "peak_vs_oracle": 1,
            "throttled_ratio": 0,
            "backlogged_ratio": 0,
            "backlog_s": 0,
            "latency_p99_s": 0,
        }
    )


def test_counts_when_two_tunings_take_three_changes_then_are_means_over_tunings() -> None:
    # 5 units, then 8: 4 slots (bad) and 6 in the first, 9 in the second; evaluations 21 and later belong to the second
    run = driven([5.0, 8.0], {2: (4,), 4: (6,), 22: (9,)}, start_p=5)
    figures = score(run)
    assert figures["reconfigurations_per_tuning"] == 1.5
    assert (figures["reconfigurations_up"], figures["reconfigurations_down"]) == (1.0, 0.5)
    assert figures["bad_per_tuning"] == 0.5 and figures["non_converged"] == 0
    # 120 + 10 s in the first, 660 + 10 - 600 in the second
    assert figures["tuning_s"] == pytest.approx((130 + 70) / 2)
    # down three times 10 s, too small from 70 to 120 s and from 600 to 660 s
    assert figures["throttled_ratio"] == pytest.approx((3 * 10 + 50 + 60) / 1200)
    used = 60 * 5 + 60 * 4 + 540 * 6 + 540 * 9
    assert figures["core_seconds_vs_oracle"] == pytest.approx(used / (600 * 5 + 600 * 8))
    assert figures["peak_vs_oracle"] == pytest.approx(9 / 8)


def test_counts_when_only_later_tunings_count_then_leave_out_the_first() -> None:
    run = driven([5.0, 8.0], {2: (4,), 4: (6,), 22: (9,)}, start_p=5)
    figures = score(run, from_tuning=1)
    assert figures["reconfigurations_per_tuning"] == 1 and figures["bad_per_tuning"] == 0
    assert figures["tuning_s"] == pytest.approx(70)
    assert figures["throttled_ratio"] == pytest.approx(70 / 600)
    assert figures["core_seconds_vs_oracle"] == pytest.approx((60 * 6 + 540 * 9) / (600 * 8))
    assert score(Run(Scenario(**{**vars(run.scenario), "from_tuning": 1}), run.steps, run.segments)) == figures


def test_non_converged_when_a_tuning_ends_too_small_then_counts_it() -> None:
    assert score(driven([5.0, 8.0, 3.0], {}, start_p=5))["non_converged"] == pytest.approx(1 / 3)


def test_backlog_when_one_grows_and_drains_then_is_integrated_exactly() -> None:
    # 60 s at 4 of 5 units: 6000 rows; 10 s down: 11000; 6 of 5 units drain 100 per second: gone 110 s later
    figures = score(driven([5.0, 5.0], {2: (6,)}, start_p=4))
    area = 60 * 6000 / 2 + 10 * (6000 + 11_000) / 2 + 110 * 11_000 / 2
    assert figures["backlog_s"] == pytest.approx(area / 500 / 1200)
    # more than a second of arrivals, 500 rows, waits from 5 s on until 5 s before it is gone
    assert figures["backlogged_ratio"] == pytest.approx((180 - 10) / 1200)


def test_latency_when_rows_wait_then_is_backlog_over_pace_plus_the_rest_of_a_downtime() -> None:
    # half of the time 0; the other half rises from 0 to 100 s of backlog at a pace of 1 row per second
    quiet = Segment(0, 600, False, (1,), (1,), (1.0,), (0.0,), (0.0,), 1.0, False, True)
    busy = Segment(600, 1200, False, (1,), (1,), (1.0,), (0.0,), (100.0,), 1.0, True, False)
    plain = case(chain("map"), stepwise((1.0,), [1.0, 1.0]))
    figures = score(Run(plain, (), (quiet, busy)))
    assert figures["latency_p99_s"] == pytest.approx(98, abs=4)
    # 12 s of 1200 s are the last percent: a downtime of 100 s, whose first 12 s wait longest
    down = busy._replace(since=600, until=700, down=True, after=(0.0,))
    rest = quiet._replace(since=700, until=1200)
    figures = score(Run(plain, (), (quiet, down, rest)))
    assert figures["latency_p99_s"] == pytest.approx(88, abs=7)


def test_latency_when_batches_run_then_adds_their_duration_and_counts_no_row_twice() -> None:
    # 40 rows run in a batch of 20 s and 60 wait at 2 rows per second
    running = Segment(0, 600, False, (1,), (1,), (1.0,), (100.0,), (100.0,), 2.0, False, True, 40.0, 20.0, 30.0)
    figures = score(Run(case(chain("map"), stepwise((1.0,), [1.0])), (), (running,)))
    assert figures["latency_p99_s"] == pytest.approx(60 / 2 + 20)
    # 30 s of arrivals in progress are normal
    assert figures["backlog_s"] == pytest.approx(70.0) and figures["backlogged_ratio"] == 1.0


def test_backlog_when_nothing_arrives_then_is_not_divided_by_zero() -> None:
    figures = score(driven([0.0, 5.0], {}, start_p=5, reach={"map": 2.0}))
    assert figures["backlog_s"] == 0 and figures["backlogged_ratio"] == 0
    idle = score(driven([0.0], {}, start_p=5, reach={"map": 1.0}))
    assert (idle["backlog_s"], idle["backlogged_ratio"], idle["latency_p99_s"]) == (0, 0, 0)


def test_shift_of_slots_when_the_sum_stays_then_is_neither_up_nor_down() -> None:
    plant = SimulatedPlant(case(chain("map", "sink"), [2.0], start_p=3), 0)
    figures = score(drive(plant, Scripted({3: (2, 4)}, plant)))
    assert figures["reconfigurations_per_tuning"] == 1
    assert figures["reconfigurations_up"] == figures["reconfigurations_down"] == 0


def test_segments_that_differ_only_in_time_are_merged() -> None:
    first = Segment(0, 10, False, (1,), (1,), (1.0,), (0.0,), (0.0,), 1.0, False, True)
    segments = [first]
    extend(segments, first._replace(since=10, until=30))
    assert segments == [first._replace(until=30)]
    extend(segments, first._replace(since=30, until=40, after=(5.0,)))
    extend(segments, first._replace(since=40, until=50, before=(5.0,), after=(10.0,)))
    assert len(segments) == 3
