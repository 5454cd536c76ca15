from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.conttune.cases import WARM_OF, cases, made, without_rivals
from benchmarks.conttune.methods import FRONTIERS, METHODS
from benchmarks.conttune.targets import TARGETS

ELSEWHERE = {"loo", "ds2_parity"}


def test_targets_when_quick_or_full_then_each_is_measured() -> None:
    for measured in (cases(True), cases(False), without_rivals(cases(False))):
        pairs = {(case.scenario, method) for case in measured for method in case.methods}
        pairs |= {(WARM_OF[scenario], method) for scenario, method in pairs if scenario in WARM_OF}
        assert {(t.scenario, t.method) for t in TARGETS if t.scenario not in ELSEWHERE} <= pairs


def test_cases_without_rivals_have_fewer_methods_but_never_none() -> None:
    every, ours = cases(quick=False), without_rivals(cases(quick=False))
    assert all(case.methods for case in ours)
    assert 3 * sum(len(c.methods) for c in ours) < sum(len(c.methods) for c in every)


def test_cases_when_listed_then_name_methods_that_exist_and_can_size_the_execution() -> None:
    for case in (*cases(quick=True), *cases(quick=False)):
        assert len(set(case.methods)) == len(case.methods)
        assert all(METHODS[m].micro_batch for m in case.methods if case.scenario.endswith("_mb"))
    assert {name for names in FRONTIERS.values() for name in names} <= set(METHODS)


def test_cases_when_full_then_flow_has_a_thousand_tunings_of_the_papers_workload() -> None:
    runs = {case.scenario: case.runs for case in cases(quick=False) if "flow" in case.methods}
    assert runs["paper"] * 20 >= 1000 and runs["paper_mb"] * 20 >= 1000
    assert min(runs.values()) >= 12


@pytest.mark.parametrize("suffix", ["", "_mb"])
def test_made_when_shifted_then_is_the_same_case_with_changes_inside_evaluations(suffix: str) -> None:
    for run in range(14):
        plain, shifted = made("paper" + suffix, run), made("paper_shifted" + suffix, run)
        by = {round(b - a, 6) for a, b in zip(plain.workload.times[1:], shifted.workload.times[1:], strict=True)}
        assert len(by) == 1 and 0 < by.pop() < plain.period_s
        assert all(time % plain.period_s for time in shifted.workload.times[1:])
        assert replace(shifted, name=plain.name, workload=plain.workload) == plain
