"""Metadata about streams never makes the plan worse than no metadata, on a small size."""

import pytest

from benchmarks.drfm import metadata_levels, scenarios
from benchmarks.drfm.metadata_levels import PARTIAL, SPANS, WRONG, records
from benchmarks.drfm.methods import ours
from benchmarks.drfm.scenarios import our_runs, runs
from benchmarks.drfm.targets import TARGETS
from benchmarks.simulation.admission_workloads import Size

SMALL, LATE = Size(streams=16, level=2, periods=120), 96
TRUE = {"minimum": 2.0, "maximum": 10.0, "high_duration": 6.0, "low_duration": 4.0, "phase": 8.0, "transition": "jump"}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(scenarios, "QUICK_SIZE", SMALL)
    our_runs.cache_clear()
    yield
    our_runs.cache_clear()


@pytest.mark.parametrize("level", [*PARTIAL, "durations_short", "phase_late"])
def test_horizon_when_metadata_are_right_or_wrong_then_needs_no_more_nodes_than_without(level):
    tell = {**PARTIAL, **WRONG}[level]
    nothing, told = our_runs("psfcw", True, 0, told=False), runs("psfcw", ours(), True, 0, tell=tell)

    above = [method_run.score(LATE).above_optimum_ratio for method_run in (*told, *nothing)]

    assert above[0] <= above[1] + 0.01


@pytest.mark.parametrize(
    ("tell", "told"),
    [
        (PARTIAL["maximum"], {"maximum": 10.0}),
        (PARTIAL["paper"], {"maximum": 10.0, "transition": "jump", "period": 10.0}),
        (WRONG["rates_high"], {**TRUE, "minimum": 2.6, "maximum": 13.0}),
        (WRONG["durations_short"], {**TRUE, "high_duration": 4.2, "low_duration": 2.8}),
        (WRONG["phase_late"], {**TRUE, "phase": 1.0}),
        (WRONG["phase_early"], {**TRUE, "phase": 5.0}),
    ],
)
def test_level_when_named_then_is_what_it_says(tell, told):
    assert _same(tell(TRUE), told)


def _same(found, expected):
    return found.keys() == expected.keys() and all(
        found[name] == (value if isinstance(value, str) else pytest.approx(value)) for name, value in expected.items()
    )


def test_records_when_made_then_every_target_has_its_figure(monkeypatch):
    monkeypatch.setattr(scenarios, "QUICK_SIZE", Size(streams=4, level=1, periods=100))
    monkeypatch.setattr(metadata_levels, "WORKLOADS", ["constw"])

    found = {(r.scenario, r.method, r.figure) for r in records(quick=True)}

    aims = {(t.scenario, t.method, t.figure) for t in TARGETS if t.scenario.startswith("metadata_constw")}
    assert len(aims) == len(SPANS) * (len(PARTIAL) + 2)
    assert aims <= found
