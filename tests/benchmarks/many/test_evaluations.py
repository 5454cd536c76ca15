"""When evaluations were due, and how long their Decisions took, from a lake's rows and logs."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.many.evaluations import (
    Evaluation,
    History,
    Wait,
    answers,
    changed_slots,
    histories,
    reads,
    reasons,
    waits,
)
from millrace.lake.control_tables import ControlTables
from millrace.lake.decisions import new_decision_id
from millrace.lake.store import Lake
from millrace.model.decision import Action, Decision
from millrace.model.spec import PipelineSpec


def _evaluation(began: float, recorded: float, read: int = 0) -> Evaluation:
    return Evaluation(began, recorded, read, "hold", "at_minimum")


def _commits(*times: float) -> list[tuple[float, int]]:
    return [(time, version) for version, time in enumerate(times)]


def test_evaluation_is_due_a_period_after_the_last_one_or_at_a_later_commit() -> None:
    evaluations = [_evaluation(1.0, 3.0), _evaluation(63.0, 66.0), _evaluation(151.0, 155.0)]
    history = History(_commits(0.0, 20.0, 40.0, 60.0, 150.0, 170.0), evaluations)
    assert waits(history, 60.0, 180.0) == [Wait(61.0, 5.0, True), Wait(150.0, 5.0, True)]


def test_early_evaluation_counts_from_its_start() -> None:
    history = History(_commits(0.0, 20.0, 40.0), [_evaluation(5.0, 6.0), _evaluation(62.0, 63.0)])
    assert waits(history, 60.0, 70.0) == [Wait(62.0, 1.0, True)]


def test_evaluation_that_never_came_waits_until_the_end() -> None:
    history = History(_commits(0.0, 20.0), [_evaluation(1.0, 2.0)])
    assert waits(history, 60.0, 200.0) == [Wait(61.0, 139.0, False)]
    assert waits(history, 60.0, 50.0) == []
    assert waits(History(_commits(0.0)), 60.0, 50.0) == []


def test_silent_pipeline_needs_no_evaluation() -> None:
    assert waits(History(_commits(0.0), [_evaluation(1.0, 2.0)]), 60.0, 1000.0) == []


def test_commit_after_a_silence_waits_for_the_first_evaluation_that_has_read_it() -> None:
    evaluations = [_evaluation(100.0, 104.0, 1), _evaluation(107.0, 109.0, 2)]
    history = History(_commits(0.0, 20.0, 100.0, 120.0, 200.0), evaluations)
    assert answers(history, 230.0) == [Wait(100.0, 9.0, True), Wait(200.0, 30.0, False)]
    assert answers(History(), 230.0) == []


def _decision(name: str, at: float, evaluated: bool = True) -> Decision:
    time_ = datetime.fromtimestamp(at, UTC)
    decision_id = new_decision_id(time_, name, str(evaluated))
    return Decision(
        decision_id, name, time_, Action.HOLD, "at_minimum", "It fits.", cursor_version=3 if evaluated else None
    )


def test_history_is_read_from_the_lake(tmp_path: Path) -> None:
    tables, began = ControlTables(Lake(tmp_path)), time.time()
    for name in ("a", "b", "other"):
        row = {"pipeline": name, "app": name, "time": datetime.now(UTC), "slots": 2, "rows_in": 9}
        tables.lake.append("telemetry/batches", [row])
    tables.decisions.record(_decision("a", began))
    tables.decisions.record(_decision("a", began, evaluated=False))
    tables.decisions.record(_decision("other", began))
    found = histories(tables.lake, ["a", "b"])
    assert [len(found[name].commits) for name in ("a", "b")] == [1, 1]
    assert found["b"].evaluations == []
    (evaluation,) = found["a"].evaluations
    assert (evaluation.action, evaluation.reason) == ("hold", "at_minimum")
    assert evaluation.began == int(began) and evaluation.read == 3
    assert began - 0.001 <= evaluation.recorded <= time.time()
    (took_s,) = reads(found["a"], began - 1, time.time() + 1)
    assert took_s == evaluation.recorded - evaluation.began
    assert reasons(found, began - 1, time.time() + 1) == {"hold: at_minimum": 1}
    assert not reasons(found, 0.0, began - 1)


def test_lake_without_decisions_has_histories_without_evaluations(tmp_path: Path) -> None:
    assert histories(Lake(tmp_path), ["a"]) == {"a": History([], [])}


def test_deployments_of_a_span_are_counted(tmp_path: Path) -> None:
    tables, began = ControlTables(Lake(tmp_path)), time.time()
    spec = PipelineSpec.model_validate({"name": "a", "submit": {"launcher": "external"}})
    tables.deployments.commit(spec.first_deployment(), None)
    assert changed_slots(tables.lake, began - 1, time.time() + 1) == 1
    assert changed_slots(tables.lake, began - 10, began - 5) == 0
