"""The pipelines that each method sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.graph.methods import CASCADE, FIXED, METHODS, OURS, longest_path, slots_for, specs_for
from benchmarks.graph.workloads import WORKLOADS
from millrace.model.spec import PipelineSpec

PERIOD_S = 5.0


def specs(method: str, workload: str, peak_rows_per_s: float = 0.0) -> list[PipelineSpec]:
    (chosen,) = (m for m in METHODS if m.name == method)
    found = specs_for(chosen, WORKLOADS[workload], Path("/home"), PERIOD_S, peak_rows_per_s)
    # as the controller reads it
    return [PipelineSpec.model_validate_json(spec.model_dump_json()) for spec in found]


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("method", [m.name for m in METHODS])
def test_methods_run_the_same_apps_with_the_same_bounds(method: str, workload: str) -> None:
    ours = specs(OURS.name, workload)[0].app_specs
    theirs = [app for spec in specs(method, workload) for app in spec.app_specs.values()]
    assert [(a.script, a.args, a.executor) for a in theirs] == [(a.script, a.args, a.executor) for a in ours.values()]
    assert {(a.slots.min, a.slots.max) for a in theirs} == {(a.slots.min, a.slots.max) for a in ours.values()}
    assert {a.period_s for a in theirs} == {PERIOD_S}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_rows_are_known_for_exactly_the_apps_of_the_spec(workload: str) -> None:
    assert WORKLOADS[workload].rows_per_row.keys() == specs(OURS.name, workload)[0].app_specs.keys()


@pytest.mark.parametrize("workload", WORKLOADS)
def test_ten_units_need_at_least_half_of_the_busiest_apps_slots(workload: str) -> None:
    found = specs(FIXED.name, workload, 10 * WORKLOADS[workload].unit_rows_per_s)
    apps = found[0].app_specs.values()
    assert max(app.slots.start / app.slots.max for app in apps) > 0.5


def test_rival_tuners_get_the_whole_graph_and_fixed_slots_its_peak() -> None:
    assert [(s.tuner.name, len(s.apps)) for s in specs("ds2", "wordcount")] == [("ds2", 3)]
    low, high = (specs(FIXED.name, "wordcount", rate)[0].app_specs.values() for rate in (20.0, 80.0))
    assert [app.slots.start for app in low] == [2, 2, 2]
    assert [app.slots.start for app in high] == [8, 8, 8]


@pytest.mark.parametrize(("workload", "apps", "on_path"), [("wordcount", 3, 3), ("q1", 2, 2), ("q3", 3, 2)])
def test_cascade_has_a_pipeline_per_app_and_divides_the_goal_by_the_path(
    workload: str, apps: int, on_path: int
) -> None:
    (ours,), cascade = specs(OURS.name, workload), specs(CASCADE.name, workload)
    assert longest_path(ours) == on_path
    assert len({spec.name for spec in cascade}) == apps
    assert {spec.objective.max_lag_s for spec in cascade} == {ours.objective.max_lag_s / on_path}
    assert {spec.tuner.name for spec in cascade} == {"flow"}


@pytest.mark.parametrize(("busy", "slots"), [(0.1, 2), (1.5, 2), (1.6, 4), (3.0, 4), (3.1, 8), (60.0, 8)])
def test_fixed_slots_skip_numbers_that_need_as_many_waves(busy: float, slots: int) -> None:
    (spec,) = specs(OURS.name, "wordcount")
    assert slots_for(spec.app_specs["clean"], busy) == slots
