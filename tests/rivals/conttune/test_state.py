from __future__ import annotations

import json

import pytest

from millrace_rivals.conttune.options import ContTuneOptions
from millrace_rivals.conttune.state import BIG, JobMemory, JobState, MeanRatio, job_state
from millrace_rivals.last_step import LastStep

OPTIONS = ContTuneOptions(backpressure_thr=0.1, core_min_thr=0.4, core_max_thr=0.7)


@pytest.mark.parametrize(
    ("backpressured", "busy", "state"),
    [
        (0.0, 0.39, JobState.OVER),
        (0.0, 0.4, JobState.NORMAL),  # coreMinThr belongs to cpuNormal
        (0.09, 0.0, JobState.OVER),
        (0.1, 0.0, JobState.NORMAL),  # backpressure without cpuStress: the shortage is not of slots
        (0.1, 0.7, JobState.NORMAL),  # coreMaxThr belongs to cpuNormal
        (0.1, 0.71, JobState.UNDER),
        (0.0, 1.0, JobState.NORMAL),  # busy, but keeps up
        (None, 0.1, JobState.UNKNOWN),
        (0.5, None, JobState.UNKNOWN),
    ],
)
def test_job_state_of_both_metrics_is_the_papers(
    backpressured: float | None, busy: float | None, state: JobState
) -> None:
    assert job_state(backpressured, busy, OPTIONS) is state


def test_memory_when_written_as_json_then_are_read_back() -> None:
    for memory in (
        JobMemory(8, BIG, LastStep({"a/map": 3}, {"a/map": 12.5}), {("in", "map"): MeanRatio(0.5, 7)}),
        JobMemory(),
    ):
        assert JobMemory.read(json.loads(json.dumps(memory.to_json()))) == memory


def test_memory_when_not_understood_then_is_as_if_never_written() -> None:
    assert JobMemory.read({}) == JobMemory()
    broken = {
        "p_max": -1,
        "phase": "small",
        "step": {"levels": {"a": 0, "b": "x"}, "rates": [1]},
        "ratios": [["in", "map", "x", 1], ["in"], 7, ["in", "join", 2.0, -3], ["a", "b", float("nan"), 1]],
    }
    assert JobMemory.read(broken) == JobMemory(ratios={("in", "join"): MeanRatio(2.0, 0)})
