from __future__ import annotations

from benchmarks.albic.collocation import Shape, follow, scenario
from benchmarks.albic.methods import METHODS
from benchmarks.albic.shapes import made_up, paired

SMALL = Shape("pairs_100", 4, 12, lambda seed: made_up(paired(2, 20, 1.0), 5, seed, apart=True), 1.0)


def test_follow_when_ours_runs_then_all_pairs_meet_in_time_within_the_budget() -> None:
    run = follow(SMALL, "joint", 0)
    assert len(run.outcomes) == len(run.seconds) == 12
    assert run.outcomes[5].collocation == 1.0
    assert max(o.moves for o in run.outcomes) <= 4


def test_follow_when_the_seed_is_the_same_then_figures_are_the_same() -> None:
    for method in METHODS:
        assert follow(SMALL, method, 1).outcomes == follow(SMALL, method, 1).outcomes


def test_scenario_when_measured_then_all_methods_have_figures_and_ours_the_targets() -> None:
    records = list(scenario(SMALL, ("joint", "albic", "cola"), range(2), quick=False))
    assert {r.method for r in records} == {"joint", "albic", "cola"}
    figures = {r.figure: r for r in records if r.method == "joint"}
    assert figures["collocation_ratio"].value == 1.0
    assert figures["budget_exceeded"].holds
    assert figures["periods_to_full_worst"].holds
    assert figures["periods_to_full_worst"].target == "<=6"
