"""A scenario's runs as records."""

from __future__ import annotations

import pytest

from benchmarks.fleet import bench
from benchmarks.fleet.runs import FIGURES, Run
from benchmarks.record import Record


def run(node_seconds: float, overloaded: float = 0.0, moved: float = 0.0, **figures: float) -> Run:
    named = {**dict.fromkeys(FIGURES, 0.0), "node_seconds": node_seconds, "overloaded_node_periods": overloaded}
    return Run({**named, "moves_per_period": moved, **figures}, [0.0, 1.0], [1.0, 1.5])


def figure(found: list[Record], method: str, name: str) -> Record:
    return next(r for r in found if (r.method, r.figure) == (method, name))


def test_every_method_has_every_figure_and_only_ours_has_targets() -> None:
    found = bench.records("sfvar", {name: run(600) for name in ("horizon", "drfm", "ard", "fixed_peak", "even")})
    moved = {"gap_p50_s", "gap_p95_s", "others_batch_ratio_p50", "others_batch_ratio_p95"}
    for method in ("horizon", "drfm", "ard", "fixed_peak", "even"):
        assert {r.figure for r in found if r.method == method} >= {*FIGURES, *moved}
    assert {r.method for r in found if r.target is not None} == {"horizon"}
    assert {r.figure for r in found if r.target is not None} == {
        *("rows_lost", "rows_doubled", "gap_p50_s", "gap_p95_s", "others_batch_ratio_p95"),
        *("node_seconds_vs_fixed_peak", "node_seconds_vs_drfm"),
        *("overloaded_node_periods_above_drfm", "moves_per_period_above_drfm"),
    }
    assert figure(found, "horizon", "others_batch_ratio_p95").unit == "ratio"


@pytest.mark.parametrize(("ours", "holds"), [(700.0, True), (701.0, False)])
def test_node_seconds_are_judged_against_fixed_nodes_for_the_peak(ours: float, holds: bool) -> None:
    found = bench.records("sfvar", {"horizon": run(ours), "fixed_peak": run(1000)})
    assert figure(found, "horizon", "node_seconds_vs_fixed_peak").holds is holds


@pytest.mark.parametrize(
    ("ours", "holds"),
    [
        (run(500, 2, 1.5), (True, True, True)),
        (run(501, 2, 1.5), (False, True, True)),
        (run(400, 3, 1.5), (True, False, True)),
        (run(400, 0, 1.6), (True, True, False)),
    ],
)
def test_ours_may_exceed_drfm_in_nothing(ours: Run, holds: tuple[bool, bool, bool]) -> None:
    found = bench.records("sfvar", {"horizon": ours, "drfm": run(500, 2, 1.5)})
    names = "node_seconds_vs_drfm", "overloaded_node_periods_above_drfm", "moves_per_period_above_drfm"
    assert tuple(figure(found, "horizon", name).holds for name in names) == holds


def test_lost_row_and_long_gap_miss_their_targets() -> None:
    slow = Run({**run(1).figures, "rows_lost": 1.0}, [0.0, 3.2, 9.0], [1.0, 3.0])
    found = bench.records("sfvar", {"horizon": slow})
    missed = {r.figure for r in found if r.holds is False}
    assert missed == {"rows_lost", "gap_p50_s", "gap_p95_s", "others_batch_ratio_p95"}


def test_run_without_moves_has_no_figures_of_moves() -> None:
    found = bench.records("sfvar", {"fixed_peak": Run(run(600).figures)})
    assert {r.figure for r in found} == set(FIGURES)


def test_method_that_failed_leaves_the_others_figures() -> None:
    assert {r.method for r in bench.records("sfvar", {"drfm": run(400), "even": run(300)})} == {"drfm", "even"}
