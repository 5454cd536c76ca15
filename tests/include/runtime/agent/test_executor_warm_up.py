from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from millrace.runtime.agent.allocation import Executor
from millrace.runtime.agent.executor_warm_up import ExecutorWarmUp, uses_arrow, uses_python
from tests.jobs.driving import until

OLD = Executor("0", "a")


class Job:
    """A job that ends when the test lets it."""

    def __init__(self) -> None:
        self.runs: list[list[str]] = []
        self._may_end = threading.Semaphore(0)

    def __call__(self, executors: Sequence[Executor]) -> None:
        self.runs.append([executor.id for executor in executors])
        self._may_end.acquire()

    def end(self) -> None:
        self._may_end.release()


@pytest.fixture
def job() -> Job:
    return Job()


def warm_up(job: Job, limit_s: float = 1e6) -> ExecutorWarmUp:
    made = ExecutorWarmUp(job, limit_s)
    assert made.ready([OLD], False) == {"0"}
    return made


def test_new_executors_are_ready_when_their_job_has_ended(job: Job) -> None:
    warm, registered = warm_up(job), [OLD, Executor("1", "a"), Executor("2", "b")]
    assert warm.ready(registered, True) == {"0"}
    until(lambda: job.runs == [["1", "2"]], "a job for both")
    assert warm.ready(registered, True) == {"0"}
    job.end()
    until(lambda: warm.ready(registered, True) == {"0", "1", "2"}, "both")
    assert len(job.runs) == 1


def test_executor_that_registers_during_a_job_has_a_job_of_its_own(job: Job) -> None:
    warm = warm_up(job)
    warm.ready([OLD, Executor("1", "a")], True)
    warm.ready([OLD, Executor("1", "a"), Executor("2", "a")], True)
    until(lambda: sorted(job.runs) == [["1"], ["2"]], "another job")
    job.end()
    job.end()


def test_executors_before_the_first_query_are_ready_at_once(job: Job) -> None:
    assert warm_up(job).ready([OLD, Executor("1", "a")], False) == {"0", "1"}
    assert job.runs == []


def test_executor_is_ready_after_the_limit_even_if_its_job_hangs(job: Job) -> None:
    warm, registered = warm_up(job, limit_s=0.2), [OLD, Executor("1", "a")]
    warm.ready(registered, True)
    until(lambda: warm.ready(registered, True) == {"0", "1"}, "the limit")
    job.end()


def test_executor_is_ready_if_its_job_fails() -> None:
    def fail(executors: Sequence[Executor]) -> None:
        raise RuntimeError("the session has ended")

    warm, registered = ExecutorWarmUp(fail, 1e6), [OLD, Executor("1", "a")]
    assert warm.ready([OLD], False) == {"0"}
    warm.ready(registered, True)
    until(lambda: warm.ready(registered, True) == {"0", "1"}, "the failure")


def test_executor_that_left_is_forgotten(job: Job) -> None:
    warm = warm_up(job)
    warm.ready([OLD, Executor("1", "a")], True)
    assert warm.ready([OLD], True) == {"0"}
    job.end()


@pytest.mark.parametrize(
    ("plan", "python", "arrow"),
    [
        ("DeltaSink *(2) HashAggregate +- FileScan", False, False),
        ("DeltaSink *(2) Project +- BatchEvalPython [twice(v)]", True, False),
        ("DeltaSink *(2) Project +- ArrowEvalPython [twice(v)], 200", True, True),
        ("DeltaSink *(1) MapInPandas look_up(a, b)", True, True),
        ("DeltaSink *(1) MapInArrow look_up(a, b)", True, True),
        ("ForeachBatchSink *(2) HashAggregate +- FileScan", True, False),
    ],
)
def test_python_workers_start_as_the_plan_needs_them(plan: str, python: bool, arrow: bool) -> None:
    assert (uses_python(plan), uses_arrow(plan)) == (python, arrow)
