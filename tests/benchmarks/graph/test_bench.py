"""A scenario's runs as records."""

from __future__ import annotations

import pytest

from benchmarks.graph import bench
from benchmarks.graph.runs import FIGURES, STEP_FIGURES, Run
from benchmarks.record import Record


def run(core_seconds: float, behind_s: float, **figures: float) -> Run:
    named = {**dict.fromkeys((*FIGURES, *STEP_FIGURES), 0.0), "core_seconds": core_seconds, "behind_s": behind_s}
    return Run(named | figures)


def figure(found: list[Record], method: str, name: str) -> Record:
    return next(r for r in found if (r.method, r.figure) == (method, name))


def test_every_method_has_every_figure_and_only_ours_has_targets() -> None:
    found = bench.records(bench.STEP, {"flow": run(500, 10), "cascade": run(400, 60, recover_s=80)})
    for method in ("flow", "cascade"):
        assert {r.figure for r in found if r.method == method} >= {*FIGURES, *STEP_FIGURES}
    assert {r.method for r in found if r.target is not None} == {"flow"}
    limited = {"rows_lost", "rows_doubled", "reconfigurations_of_step", "better_rivals", "recover_vs_cascade"}
    assert {r.figure for r in found if r.target is not None} == limited


@pytest.mark.parametrize(
    ("ours", "cascade", "holds"), [(40.0, 80.0, True), (41.0, 80.0, False), (0.0, 0.0, True), (5.0, 0.0, False)]
)
def test_recovery_is_judged_against_the_cascade(ours: float, cascade: float, holds: bool) -> None:
    runs = {"flow": run(500, 10, recover_s=ours), "cascade": run(500, 10, recover_s=cascade)}
    assert figure(bench.records(bench.STEP, runs), "flow", "recover_vs_cascade").holds is holds


def test_second_reconfiguration_of_a_step_misses_the_target() -> None:
    found = bench.records(bench.STEP, {"flow": run(500, 10, reconfigurations_of_step=2.0)})
    assert figure(found, "flow", "reconfigurations_of_step").holds is False


def test_rival_that_is_cheaper_and_no_later_misses_the_target() -> None:
    found = bench.records("wordcount", {"flow": run(500, 10), "ds2": run(400, 10), "conttune": run(400, 90)})
    better = figure(found, "flow", "better_rivals")
    assert (better.value, better.holds) == (1, False)


def test_method_that_failed_leaves_the_others_figures() -> None:
    assert {r.method for r in bench.records(bench.STEP, {"cascade": run(400, 60)})} == {"cascade"}


def test_scenarios_last_at_most_an_hour() -> None:
    around_s = 100  # start, rest of the rows, comparison
    for scenario in bench.SCENARIOS:
        load = bench.load_of(scenario, 10.0, bench.WHOLE, 0)
        assert len(bench.METHODS) * (load.length_s + around_s) <= 3600
