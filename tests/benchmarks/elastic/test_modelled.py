"""The model behaves as the app that it was measured on: fixed sizes cost what they cost live."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.elastic.modelled import SCENARIO, records, run_once
from benchmarks.elastic.modelled_app import ModelledApp
from benchmarks.elastic.streams import PEAK_ROWS_PER_S, Stream, silence, step6, stream

STEP6 = stream("step6", step6, 120)


@pytest.mark.parametrize(("slots", "core_seconds", "behind"), [(4, 502, True), (6, 747, False)])
def test_fixed_sizes_cost_what_they_cost_live(slots: int, core_seconds: float, behind: bool) -> None:
    cost, changes = run_once(STEP6, 0, 30.0, slots)
    assert cost.core_seconds == pytest.approx(core_seconds, rel=0.05)
    assert (cost.behind_s > 5, changes) == (behind, 0)


def test_millrace_scales_up_for_a_step_and_down_after_it() -> None:
    cost, changes = run_once(STEP6, 1, 30.0)
    large, _ = run_once(STEP6, 1, 30.0, 8)
    assert changes >= 2
    assert cost.behind_s < 6 and cost.core_seconds < 0.85 * large.core_seconds


def test_no_batch_runs_while_nothing_arrives(tmp_path: Path) -> None:
    run = ModelledApp(stream("silence", silence, 60), tmp_path, 0, 8).run()
    assert run.batch_rows[-1] == sum(stream("silence", silence, 60).counts)
    assert not any(26 < end_s < 39 for end_s in run.batch_s)


def test_stream_is_compared_with_the_fixed_size_that_keeps_the_goal() -> None:
    short = Stream("short", tuple([round(PEAK_ROWS_PER_S / 4)] * 20))
    found = {r.figure: r for r in records("elastic", {"short": [short, short]}, (2, 8), 30.0)}
    assert {r.scenario for r in found.values()} == {SCENARIO} and {r.method for r in found.values()} == {"short"}
    assert found["core_seconds_vs_fixed"].value == pytest.approx(1.0, rel=0.2)
    assert found["behind_ratio"].value == 0
