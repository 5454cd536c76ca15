"""The rule of Kubernetes' HorizontalPodAutoscaler, with executors as pods."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from benchmarks.elastic.hpa import STABLE_S, Hpa, ProcessorUse
from tests.jobs.driving import until

WORD = "a-word-that-no-other-process-has"


@pytest.mark.parametrize(
    ("used", "executors", "wanted"),
    [(1.0, 2, 2), (2.0, 2, 4), (1.05, 2, 2), (9.0, 2, 4), (0.0, 2, 1), (1.2, 2, 3)],
    ids=["at the target", "twice", "within the tolerance", "no more than allowed", "no fewer", "rounded up"],
)
def test_executors_are_in_proportion_to_the_usage(used: float, executors: int, wanted: int) -> None:
    assert Hpa(0.25, 2, 1, 4).executors_for(0.0, used, executors) == wanted


def test_step_down_waits_until_no_evaluation_in_the_window_wanted_more() -> None:
    rule = Hpa(0.25, 2, 1, 4)
    assert rule.executors_for(0.0, 2.0, 4) == 4
    assert rule.executors_for(STABLE_S - 1, 0.5, 4) == 4
    assert rule.executors_for(STABLE_S + 1, 0.5, 4) == 1


def test_usage_covers_the_named_processes_and_their_children() -> None:
    busy = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    with subprocess.Popen([sys.executable, "-c", busy, WORD]) as process:
        use = ProcessorUse(WORD)
        use.since_last(1.0)
        until(lambda: use.since_last(1.0) > 0, "the child's processor time")
        for child in psutil.Process(process.pid).children():
            child.kill()
        process.kill()
    assert ProcessorUse("no process has this " + WORD).since_last(1.0) == 0.0
