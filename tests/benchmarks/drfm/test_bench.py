"""The benchmark's parts, each on a small size."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.drfm import adaptivity, frontier, gps, scenarios
from benchmarks.drfm.method_run import run_method
from benchmarks.drfm.methods import METHODS, ours
from benchmarks.drfm.targets import TARGETS
from benchmarks.record import Record
from benchmarks.simulation.admission import Score, SplitNodes
from benchmarks.simulation.admission_workloads import WORKLOADS, Size
from benchmarks.targets import judged
from tests.optimizers.drfm.instances import problem

AXES = ("above_optimum_ratio", "overloaded_ratio", "redirections_per_period")
SMALL = Size(streams=20, level=2, periods=40)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_run_has_an_outcome_for_every_period_on_few_nodes(method):
    method_run = run_method(WORKLOADS["sfvar"](SMALL, 0), METHODS[method](), SplitNodes())

    assert len(method_run.outcomes) == 40
    assert -0.5 < method_run.score().above_optimum_ratio < 1


def test_horizon_when_pairs_are_known_then_redirects_none_and_overloads_none():
    found = run_method(WORKLOADS["psfcw"](SMALL, 0), ours(), SplitNodes()).score()

    assert found.redirections_per_period == 0
    assert found.overloaded_ratio == 0


def test_horizon_when_nothing_is_declared_then_learns_to_need_no_more():
    size = Size(streams=20, level=2, periods=140)
    late = [run_method(WORKLOADS["psfcw"](size, 0), ours(told=t), SplitNodes()).score(110) for t in (True, False)]

    assert late[1].node_periods <= late[0].node_periods * 1.34
    assert late[1].overloaded_ratio <= 0.02


def test_targets_when_listed_then_name_scenarios_and_methods_that_exist():
    known = {*WORKLOADS, "adaptivity", "no_metadata", "bursty_frontier", "scale_1m"}

    judged_elsewhere = ("sfvar_level", "metadata_")
    assert {t.scenario for t in TARGETS if not t.scenario.startswith(judged_elsewhere)} <= known


def test_target_when_a_figure_is_beyond_it_then_does_not_hold():
    (found,) = judged([Record("drfm", "psfcw", "horizon", "above_optimum_ratio", 0.06, "ratio")], TARGETS)

    assert found.holds is False


def test_target_is_judged_at_the_upper_end_of_the_interval():
    record = Record("drfm", "psfcw", "horizon", "above_optimum_ratio", 0.04, "ratio", 0.03, 0.06, 5)
    (found,) = judged([record], TARGETS)

    assert found.holds is False
    assert judged([replace(record, high=0.05)], TARGETS)[0].holds is True


def scores(*figures):
    return [Score(**{**dict.fromkeys(Score.__dataclass_fields__, 0.0), **dict(zip(AXES, figures, strict=True))})]


def test_frontier_counts_every_point_of_the_rival():
    points = {
        "horizon_z1": scores(0.2, 0.1, 5.0),
        "drfm_k1": scores(0.3, 0.1, 5.0),
        "drfm_full_0.9": scores(0.1, 0.1, 9.0),
    }
    assert frontier.undominated("bursty_frontier", points).value == 0.5
    del points["drfm_full_0.9"]
    assert frontier.undominated("bursty_frontier", points).value == 0.0


@pytest.mark.parametrize(
    ("nodes", "overload", "value", "holds"),
    [(0.3, 0.1, 0.25, True), (0.2, 0.1, 0.25, False), (0.3, 0.3, 0.2, True), (0.5, 0.01, 0.3, False)],
)
def test_frontiers_are_compared_at_equal_overload(nodes, overload, value, holds):
    points = {
        "horizon_z1": scores(0.2, 0.15, 1.0),
        "horizon_z2": scores(0.3, 0.05, 1.0),
        "drfm_k1": scores(nodes, overload, 1.0),
    }
    records = {(r.method, r.figure): r for r in frontier.comparison("gps_frontier", points)}
    judged_at = records["horizon", "above_optimum_at_drfm_k1"]
    assert (judged_at.value, judged_at.holds) == (pytest.approx(value), holds)
    assert records["drfm_k1", "above_optimum_ratio"].value == nodes


def test_adaptivity_when_a_load_surges_then_ours_keeps_the_bound_below_peak_nodes(monkeypatch):
    monkeypatch.setattr(adaptivity, "SIZE", Size(streams=40, level=8))
    monkeypatch.setattr(adaptivity, "QUICK_PERIODS", 60)

    found = {(r.method, r.figure): r.value for r in adaptivity.records(quick=True)}

    assert found["static", "node_periods"] == 8 * 60
    assert found["static", "redirections_per_period"] == found["static", "redirection_delay_s"] == 0
    assert found["static_mean", "latency_p95_s"] > adaptivity.LATENCY_S
    assert found["horizon", "latency_p95_s"] <= adaptivity.LATENCY_S
    assert found["horizon", "node_periods"] < 0.8 * found["static", "node_periods"]


def test_static_when_streams_join_then_balances_them_and_moves_none():
    posed = problem([[6.0, 1.0, 5.0, 2.0], [2.0, 9.0, 5.0, 2.0]], [0, -1, -1, -1], nodes=1)

    assert adaptivity.Static(2).plan(posed).node.tolist() == [0, 1, 0, 1]


def test_gps_when_the_trace_is_missing_then_is_skipped_by_name(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("MILLRACE_DATA", str(tmp_path))

    assert list(gps.records(quick=True)) == []
    assert f"gps: skipped, as there is no {gps.FILE}" in capsys.readouterr().err


def test_gps_when_a_trace_is_there_then_trips_join_send_and_leave(monkeypatch, tmp_path):
    import pandas as pd

    monkeypatch.setenv("MILLRACE_DATA", str(tmp_path))
    seconds = [0, 30, 59, 120, 200, gps.FOLD_S + 61, gps.FOLD_S * 3 - 1, gps.FOLD_S * 3 + 5]
    frame = pd.DataFrame({"trip_id": [7, 7, 7, 7, 8, 9, 10, 10], "ts": pd.to_datetime(seconds, unit="s", utc=True)})
    frame["ts"] = frame["ts"].astype("datetime64[us, UTC]")
    frame.to_parquet(tmp_path / gps.FILE)

    load = gps.trips(240)

    assert len(load.streams) == 3, "the trip that begins at the end of the fold is beyond the time"
    assert load.rates[:3, 0] == pytest.approx([3 / 60, 0.0, 1 / 60])
    assert np.isnan(load.rates[3, 0])
    assert np.isnan(load.rates[0, 2])
    assert load.rates[1, 2] == pytest.approx(1 / 60)


def test_bench_when_listed_then_the_launcher_finds_it():
    from millrace.local.cli.bench import bench_names

    assert "drfm" in bench_names()


def test_frontier_of_bursts_has_all_settings_and_ours_at_each_of_the_rivals(monkeypatch):
    monkeypatch.setattr(scenarios, "QUICK_SIZE", SMALL)
    monkeypatch.setattr(frontier, "QUICK_MARGINS", (0.5,))
    monkeypatch.setattr(frontier, "AHEADS", (2,))

    records = list(frontier.bursty(quick=True))

    assert {r.method for r in records} == {"drfm_k2", "drfm_full_0.8", "drfm_full_0.9", "horizon_z0.5", "horizon"}
    at_rivals = {f"above_optimum_at_{rival}" for rival in ("drfm_k2", "drfm_full_0.8", "drfm_full_0.9")}
    assert {r.figure for r in records if r.method == "horizon"} == {*at_rivals, "undominated_ratio"}
