"""Admission advice for streams through a whole evaluation: telemetry, decision, text, run in MLflow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace.control.profile_signals import stream_counts
from millrace.lake.control_tables import ControlTables
from millrace.lake.decisions import DecisionStore
from millrace.lake.memories import MemoryStore
from millrace.model.decision import Action, Decision, Memory, Proposal
from millrace.model.deployment import Deployment
from millrace.model.protocols import Cursor
from millrace.model.signals import Signals
from millrace.optimizers.registry import Role, create
from millrace.reporting.tracker import MlflowTracker
from tests.include.control.test_streams import NOW, PROFILE, profile
from tests.include.control.world import NAME, MemoryPlant, World, world

ADMISSION = {"capacity": 1.0, "sizing": {"query_s": 2.0, "headroom": 0.1}, "options": {"ahead": 16}}
FIRST = (
    "admit 2 streams on 2 ingest nodes at 0.9 rows/s each, the fewest possible; nodes at most 62 % full in the next "
    "16 periods; 3 query workers and 1 merge worker; forecast off by 0 % in total, 0 % per stream"
)


class Measuring(MemoryPlant):
    """Sees the streams of the lake too, like a live plant."""

    def observe(self, since: Cursor) -> Signals:
        streams = stream_counts(self.spec, ControlTables(self.lake), since.until, NOW)  # type: ignore[attr-defined]
        return replace(super().observe(since), streams=streams)


def admitting(home: Path, arrival: float = 400.0, tracker: MlflowTracker | None = None, **changes: Any) -> World:
    w = world(home, tracker, profile=PROFILE, admission={**ADMISSION, **changes})
    w.plant.__class__ = Measuring
    w.plant.spec = w.loop.spec  # type: ignore[attr-defined]
    options = w.loop.spec.admission_options
    assert options is not None
    w.loop.optimizers = {**w.loop.optimizers, "drfm": create("drfm", options, Role.ADMISSION)}
    w.plant.arrival = arrival
    w.run()
    return w


@pytest.fixture
def numbers() -> Iterator[int]:
    """Increasing batch numbers."""
    return iter(range(31, 10_000, 20))


def again(w: World, numbers: Iterator[int]) -> Decision:
    """The next evaluation, after new batches."""
    number = next(numbers)
    w.clock.wait(60)
    w.report(number, number + 19)
    return w.loop.decide(w.loop.observe())


def test_admission_after_a_profile_is_advice_next_to_the_slots(tmp_path: Path) -> None:
    w = admitting(tmp_path)
    profile(w.lake, {hour: {"JFK/B6": 2000, "EWR/UA": 2000} for hour in range(4)})
    decision = w.loop.decide(w.loop.observe())
    assert (decision.action, decision.reason_code) == (Action.ADVISE, "streams_to_admit")
    assert decision.sentence == f"The slots fit the load. Advice by drfm: {FIRST}."
    assert decision.target is None and w.loop.apply(decision.decision_id) == ()
    stored = DecisionStore(w.lake).get(decision.decision_id)
    assert stored is not None and stored.proposals == decision.proposals
    plan = stored.proposals[0].admission
    assert plan is not None and plan.stream == ("EWR/UA", "JFK/B6") and plan.query == 3
    assert stored.signals is not None and stored.signals.streams is not None and stored.signals.streams.periods == 3
    memory = MemoryStore(w.lake).latest(NAME, "drfm")
    assert sorted(memory["streams"]) == ["EWR/UA", "JFK/B6"] and memory["until"] == plan.since.isoformat()


def test_admission_advice_is_shown_with_a_change_of_slots(tmp_path: Path) -> None:
    w = admitting(tmp_path, arrival=800.0)
    profile(w.lake, {hour: {"JFK/B6": 2000, "EWR/UA": 2000} for hour in range(4)})
    decision = w.loop.decide(w.loop.observe())
    assert (decision.action, decision.reason_code) == (Action.APPLY, "under_provisioned")
    assert decision.sentence.startswith("delays: slots 2 -> 4: ")
    assert decision.sentence.endswith(f"Advice by drfm: {FIRST}.")
    assert decision.predicted == {"throughput_rows_per_s": 960.0}, "what is not done predicts nothing"
    assert decision.target is not None and set(decision.target.apps) == {NAME}


def test_admission_uses_streams_once_per_profile(
    tmp_path: Path, numbers: Iterator[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    w = admitting(tmp_path)
    profile(w.lake, {hour: {"JFK/B6": 2000, "EWR/UA": 2000} for hour in range(4)})
    w.loop.decide(w.loop.observe())
    committed = w.lake.committed_at("telemetry/streams")
    assert committed is not None
    w.clock.now = committed
    quiet = again(w, numbers)
    assert (quiet.action, quiet.sentence) == (Action.HOLD, "The slots fit the load.")
    assert quiet.signals is not None and quiet.signals.streams is None
    recorded = w.lake.rows("select count(*) as n from memory where optimizer = 'drfm'", "control/memory")
    assert recorded[0]["n"] == 1, "what did not change is not stored again"
    monkeypatch.setattr(type(w.lake), "committed_at", lambda *_: w.clock.now)
    profile(w.lake, {4: {"JFK/B6": 2000, "EWR/UA": 100}})
    stays = again(w, numbers)
    assert (stays.action, stays.reason_code) == (Action.HOLD, "fits")
    assert stays.sentence.startswith("Streams stay: 2 on 2 ingest nodes at 0.9 rows/s each")
    assert stays.signals is not None and stays.signals.streams is not None and stays.signals.streams.periods == 1


def test_admission_holds_on_broken_telemetry_and_then_continues(
    tmp_path: Path,
) -> None:
    w = admitting(tmp_path, arrival=800.0)
    profile(w.lake, {0: {"JFK/B6": 2000, "EWR/UA": -1}, 1: {"JFK/B6": 1}})
    decision = w.loop.decide(w.loop.observe())
    assert decision.action is Action.APPLY
    assert decision.proposals[0].reason_code == "bad_signals" and decision.proposals[0].admission is None
    assert MemoryStore(w.lake).latest(NAME, "drfm") == {}


class Broken:
    """Always fails."""

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Mapping[str, Any]]:
        raise ZeroDivisionError("no capacity")


@pytest.mark.parametrize(("arrival", "action"), [(800.0, Action.APPLY), (400.0, Action.HOLD)])
def test_evaluation_continues_if_an_optimizer_fails(tmp_path: Path, arrival: float, action: Action) -> None:
    w = admitting(tmp_path, arrival=arrival)
    w.loop.optimizers = {**w.loop.optimizers, "drfm": Broken()}
    decision = w.loop.decide(w.loop.observe())
    assert decision.action is action
    assert "drfm failed: ZeroDivisionError: no capacity (propose, line " in decision.sentence
    assert decision.reason_code == ("under_provisioned" if action is Action.APPLY else "fits")


def test_evaluation_when_the_owner_of_a_field_fails_then_changes_nothing(tmp_path: Path) -> None:
    w = admitting(tmp_path, arrival=800.0)
    w.loop.optimizers = {"flow": Broken()}
    decision = w.loop.decide(w.loop.observe())
    assert (decision.action, decision.reason_code) == (Action.HOLD, "optimizer_failed")
    assert decision.sentence.startswith("No change: flow failed: ZeroDivisionError") and not decision.proposals


def test_advised_admission_logs_plan_forecasts_and_picture(tmp_path: Path, mlflow_uri: str) -> None:
    from mlflow import MlflowClient

    w = admitting(tmp_path, tracker=MlflowTracker(mlflow_uri, artifacts=(tmp_path / "artifacts").as_uri()))
    profile(w.lake, {hour: {"JFK/B6": 2000 + 100 * hour, "EWR/UA": 2000} for hour in range(4)})
    decision = w.loop.decide(w.loop.observe())
    assert decision.mlflow_run_id is not None
    client = MlflowClient(mlflow_uri)
    run = client.get_run(decision.mlflow_run_id)
    told = run.data.metrics
    assert (told["admission_split"], told["admission_query"], told["admission_redirections"]) == (2, 3, 0)
    assert (told["admission_admitted"], told["admission_streams"], told["admission_least_nodes"]) == (2, 2, 2)
    assert told["admission_total_error"] > 0 and 0.6 < told["admission_highest_load"] < 1
    assert run.data.params["admission.method"] == "horizon" and run.data.params["admission.period_s"] == "3600"
    artifacts = {a.path for a in client.list_artifacts(decision.mlflow_run_id)}
    assert {"admission-drfm.png", "admission-drfm.json", "decision.json"} <= artifacts
    plan = json.loads(Path(client.download_artifacts(decision.mlflow_run_id, "admission-drfm.json")).read_text())
    assert plan["stream"] == ["EWR/UA", "JFK/B6"] and len(plan["loads"]) == 2 and len(plan["loads"][0]) == 16
