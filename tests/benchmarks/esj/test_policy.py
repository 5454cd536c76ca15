import numpy as np
import pytest

from benchmarks.esj import bench, policy
from benchmarks.esj.course import follow
from benchmarks.esj.targets import BURST_EVENTS, TARGETS
from benchmarks.record import Record
from benchmarks.simulation.join import JoinCluster
from benchmarks.simulation.join_workloads import RATE, WORKLOADS
from benchmarks.targets import judged
from millrace.optimizers.esj.workers import workers_for


def run(method, course, seed=0):
    arrivals = np.random.default_rng(seed).poisson((course * RATE / 2)[:, None], (len(course), 2))
    cluster = JoinCluster()
    return follow(arrivals, policy.setting(method, cluster), cluster)


def test_literal_when_the_load_grows_sixfold_then_sheds_two_fifths_and_never_scales():
    # the fault seen in a prototype: 42 % shed at tau2 = .8, tau3 = .95, B = .1
    found = run("literal", np.concatenate([np.ones(300), np.linspace(1, 6, 1500)])).score()

    assert found.shed_ratio == pytest.approx(0.42, abs=0.02)
    assert found.scale_events == 0


@pytest.mark.parametrize("seed", range(3))
def test_ours_when_the_load_grows_sixfold_then_sheds_little(seed):
    found = run("ours", WORKLOADS["ramp6"](), seed)

    assert found.score().shed_ratio <= 0.01
    assert found.score().scale_events <= 3
    assert found.workers >= 6


@pytest.mark.parametrize("gap_s", [120, 200, 280])
def test_ours_when_bursts_repeat_then_does_not_scale_with_each(gap_s):
    course = np.where(np.arange(2400) % gap_s >= gap_s - 16, 6.0, 1.0)

    assert run("ours", course).score().scale_events <= BURST_EVENTS


def test_ours_when_days_pass_then_gives_workers_back_at_night():
    there = run("ours", WORKLOADS["diurnal"]())

    peak = workers_for(4 * RATE * 60, JoinCluster().capacity, 0.4)

    assert there.workers < peak
    assert there.score().worker_s < 0.7 * peak * len(WORKLOADS["diurnal"]())


@pytest.mark.parametrize("method", sorted(policy.METHODS))
def test_policy_when_the_load_is_as_expected_then_changes_nothing(method):
    found = run(method, np.ones(600)).score()

    assert (found.shed_ratio, found.scale_events) == (0, 0)


def test_records_when_made_then_name_each_load_method_and_figure(monkeypatch):
    monkeypatch.setattr(policy, "WORKLOADS", {"step": WORKLOADS["step"]})
    monkeypatch.setattr(policy, "QUICK_SEEDS", 2)
    found = list(policy.records(quick=True))

    assert {(r.scenario, r.method) for r in found} == {("step", m) for m in policy.METHODS}
    assert {r.figure for r in found} == set(policy.FIGURES)
    assert {r.n for r in found} == {2}


def test_targets_when_listed_then_name_loads_and_methods_that_exist():
    assert {t.scenario for t in TARGETS if t.method == "ours"} <= {*WORKLOADS, "block_size"}
    assert set(bench.SCENARIOS) >= {"block_size", "policy"}


def test_target_when_a_burst_scales_each_time_then_does_not_hold():
    (found,) = judged([Record("esj", "burst", "ours", "scale_events", 18, "events")], TARGETS)

    assert found.holds is False
