"""Evaluations in the triggerer: most end there, and each runs in a process of its own."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from airflow.triggers.base import TaskSkippedEvent, TriggerEvent

from millrace.evaluator import processes
from millrace.lake.decisions import DecisionStore
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.model.codec import from_plain
from millrace.model.evaluation_outcome import EvaluationOutcome, State
from millrace.plugins.evaluation import NOTHING, EvaluationTrigger
from tests.dags.runs import launched, overloaded

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_db")]


@pytest.fixture
def lake(millrace_home: Path) -> Lake:
    return Lake(millrace_home / "lake")


@pytest.fixture(autouse=True)
def own_processes(millrace_home: Path) -> Iterator[None]:
    """Give each test a process to fork that has the test's environment."""
    yield
    for one in processes._idle():
        one.end()
    for kept in (processes._idle, processes._turns, processes._slow):
        kept.cache_clear()
    forkserver._forkserver._stop()  # type: ignore[attr-defined]


def fired(pipeline: str = "tiny", asked: str = NOTHING) -> TriggerEvent:
    async def first() -> TriggerEvent:
        return await anext(EvaluationTrigger(pipeline, asked).run())

    return asyncio.run(first())


def test_evaluation_that_changes_nothing_skips_the_task_in_the_triggerer(lake: Lake) -> None:
    event = fired()
    decision = DecisionStore(lake).last("tiny")
    assert isinstance(event, TaskSkippedEvent) and event.xcoms is not None and decision is not None
    assert (event.xcoms["decision_id"], event.xcoms["due"]) == (decision.decision_id, None)


def test_change_is_committed_and_continues_on_a_worker(lake: Lake) -> None:
    base = launched(lake)
    overloaded(lake)
    event = fired()
    assert not isinstance(event, TaskSkippedEvent)
    outcome = from_plain(EvaluationOutcome, json.loads(json.dumps(event.payload)))
    newest = DeploymentStore(lake).latest("tiny")
    assert newest is not None and newest.version == base.version + 1
    assert outcome.due == outcome.decision_id == newest.decision_id
    assert isinstance(fired(), TaskSkippedEvent), "nothing is new"


SCRIPT = """
import asyncio
from airflow.__main__ import main

if __name__ == "__main__":
    from airflow.sdk.execution_time.supervisor import block_orm_access

    block_orm_access()
    from millrace.evaluator.processes import evaluated

    print(asyncio.run(evaluated("tiny", {asked!r})))
"""


def test_evaluation_needs_no_database_if_airflow_was_started_by_its_script(lake: Lake, tmp_path: Path) -> None:
    script = tmp_path / "airflow"
    script.write_text(SCRIPT.format(asked=NOTHING))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert DecisionStore(lake).last("tiny") is not None, done.stdout


def test_request_of_a_person_counts(lake: Lake) -> None:
    launched(lake)
    event = fired(asked=json.dumps({"conf": {"slots": 4}, "user": "ada"}))
    outcome = from_plain(EvaluationOutcome, event.payload)
    assert outcome.due is not None and "ada" in outcome.sentence


def test_unknown_pipeline_is_a_problem_for_a_worker_to_report(lake: Lake) -> None:
    outcome = from_plain(EvaluationOutcome, fired("nowhere").payload)
    assert outcome.state is State.PROBLEM and "nowhere" in outcome.sentence


def answer_or_hang(pipe: Connection) -> None:
    """Stand for what runs in the process."""
    while True:
        pipeline, _ = pipe.recv()
        if pipeline == "stuck":
            time.sleep(3600)
        if pipeline == "dying":
            os.kill(os.getpid(), signal.SIGKILL)
        pipe.send(EvaluationOutcome(State.NOT_DUE, f"{os.getpid()}", pipeline))


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "work", answer_or_hang)


@pytest.mark.usefixtures("stand_in")
def test_evaluations_that_hang_keep_no_other_waiting_and_are_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE_S", 0.2)

    async def race() -> list[object]:
        hanging = [asyncio.create_task(processes.evaluated("stuck", NOTHING)) for _ in range(3)]
        outcome = await processes.evaluated("other", NOTHING)
        assert outcome.state is State.NOT_DUE
        assert not any(task.done() for task in hanging)
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        return list(multiprocessing.active_children())

    assert len(asyncio.run(race())) == 1, "only the idle process is left"


@pytest.mark.usefixtures("stand_in")
def test_process_that_dies_is_an_error_and_is_replaced() -> None:
    async def one_after_the_other() -> list[EvaluationOutcome]:
        return [await processes.evaluated(name, NOTHING) for name in ("a", "dying", "a")]

    first, died, last = asyncio.run(one_after_the_other())
    assert (died.state, died.pipeline) == (State.ERROR, "dying")
    assert last.state is State.NOT_DUE and last.sentence != first.sentence


@pytest.mark.usefixtures("stand_in")
def test_pipeline_returns_to_the_process_that_remembers_it() -> None:
    async def evaluations() -> list[EvaluationOutcome]:
        first = await asyncio.gather(*(processes.evaluated(name, NOTHING) for name in ("a", "b")))
        return [*first, *[await processes.evaluated(name, NOTHING) for name in ("b", "a", "b")]]

    a, b, *later = asyncio.run(evaluations())
    assert a.sentence != b.sentence
    assert [outcome.sentence for outcome in later] == [b.sentence, a.sentence, b.sentence]


@pytest.mark.usefixtures("stand_in")
def test_idle_process_that_was_killed_is_replaced() -> None:
    async def around_a_kill() -> EvaluationOutcome:
        first = await processes.evaluated("a", NOTHING)
        os.kill(int(first.sentence), signal.SIGKILL)
        while multiprocessing.active_children():
            await asyncio.sleep(0.01)
        return await processes.evaluated("a", NOTHING)

    assert asyncio.run(around_a_kill()).state is State.NOT_DUE
