"""Placement of state partitions through a whole evaluation: decision, text, version, run in MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from millrace.control.change_results import achieved_by
from millrace.lake.decisions import DecisionStore
from millrace.lake.memories import MemoryStore
from millrace.model.decision import LIVE, Action, Memory, Outcome, Proposal, Reconfiguration
from millrace.model.deployment import PLACEMENT, Change, Deployment
from millrace.model.placement import STATEFUL_BATCH, PlacementPlan
from millrace.model.signals import Capacity, Signals
from millrace.optimizers.conformance.builders import app_signals, signals
from millrace.reporting.tracker import MlflowTracker
from tests.include.control.world import NAME, NOON, World, world
from tests.optimizers.albic.partition_loads import groups

SENTENCE = "1 state partition moves: the stateful part of a batch takes 7.0 -> 6.0 s on 2 executors"
OPERATOR = "q/0"


def plan(**changes: Any) -> PlacementPlan:
    told: dict[str, Any] = {
        "method": "joint",
        "executors": (0, 1),
        "operator": (OPERATOR,) * 3,
        "partition": (0, 1, 2),
        "busy_s": (4.0, 3.0, 3.0),
        "before": (0, 0, -1),
        "after": (0, 1, 1),
        "cores": 1,
        "batch_before_s": 7.0,
        "batch_after_s": 6.0,
        "bound_s": 5.0,
        "state_bytes": None,
        "budget": None,
        "stage": "balanced",
        "seed": 7,
    }
    return PlacementPlan(**(told | changes))


@dataclass
class Placer:
    """Places two of three partitions, or returns nothing."""

    silent: bool = False
    asked_with: list[int] = field(default_factory=list)

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Mapping[str, Any]]:
        self.asked_with.append(current.apps[NAME].slots)
        if self.silent:
            return Proposal("albic", (), "partitions_not_measured", ""), memory
        moved = tuple(Change(NAME, PLACEMENT, -1, 1, OPERATOR, None, partition) for partition in (1, 2))
        proposal = Proposal("albic", moved, "partitions_to_move", SENTENCE, {STATEFUL_BATCH: 6.0}, placement=plan())
        return proposal, {"moved": {}}


def placed(
    home: Path, placer: Placer, arrival: float = 800.0, tracker: MlflowTracker | None = None, **changes: Any
) -> World:
    w = world(home, tracker, **{"submit": {"master": "embedded"}, **changes})
    w.loop.optimizers = {**w.loop.optimizers, "albic": placer}
    w.plant.arrival = arrival
    w.run()
    return w


def test_placement_becomes_a_version_that_restarts_nothing(tmp_path: Path) -> None:
    w = placed(tmp_path, Placer(), arrival=400.0)
    before = w.tables.deployments.latest(NAME)
    decision = w.loop.decide(w.loop.observe())
    assert (decision.action, decision.reason_code) == (Action.APPLY, "partitions_to_move")
    assert decision.sentence == f"{NAME}: placement of 2 state partitions: {SENTENCE}."
    w.loop.apply(decision.decision_id)
    after = w.tables.deployments.latest(NAME)
    assert before is not None and after is not None and not before.restarts(after)
    assert after.apps[NAME].placement == {OPERATOR: (-1, 1, 1)} and before.apps[NAME].placement == {}
    stored = DecisionStore(w.lake).get(decision.decision_id)
    assert stored is not None and next(p for p in stored.proposals if p.optimizer == "albic").placement == plan()
    assert MemoryStore(w.lake).latest(NAME, "albic") == {"moved": {}}


def test_placement_is_planned_for_the_slots_of_the_same_decision(tmp_path: Path) -> None:
    placer = Placer()
    w = placed(tmp_path, placer)
    decision = w.loop.decide(w.loop.observe())
    assert placer.asked_with == [4]
    assert decision.sentence.startswith(f"{NAME}: slots 2 -> 4, {NAME}: placement of 2 state partitions: ")
    assert decision.target is not None
    assert (decision.target.slots, decision.target.apps[NAME].placement) == (4, {OPERATOR: (-1, 1, 1)})
    assert decision.predicted == {"throughput_rows_per_s": 960.0, STATEFUL_BATCH: 6.0}


@pytest.mark.parametrize(("mode", "action"), [("advise", Action.ADVISE), ("approve", Action.AWAIT)])
def test_placement_follows_the_mode(tmp_path: Path, mode: str, action: Action) -> None:
    w = placed(tmp_path, Placer(), arrival=400.0, mode=mode)
    decision = w.loop.decide(w.loop.observe())
    assert decision.action is action and SENTENCE in decision.sentence


def test_placement_owned_by_another_is_advice(tmp_path: Path) -> None:
    w = placed(tmp_path, Placer(), arrival=400.0, owners={"placement": "flow"})
    decision = w.loop.decide(w.loop.observe())
    assert (decision.action, decision.target) == (Action.ADVISE, None)
    assert "placement belongs to flow" in decision.sentence


def test_silent_placer_leaves_the_sentence_to_the_tuner(tmp_path: Path) -> None:
    w = placed(tmp_path, Placer(silent=True), arrival=400.0)
    decision = w.loop.decide(w.loop.observe())
    told = (decision.action, decision.reason_code, decision.sentence)
    assert told == (Action.HOLD, "fits", "The slots fit the load.")
    assert decision.mlflow_run_id is None


def test_placement_effect_is_measured_on_the_same_version(tmp_path: Path) -> None:
    w = placed(tmp_path, Placer(), arrival=400.0)
    decision = w.loop.decide(w.loop.observe())
    change = Reconfiguration(NAME, NAME, decision.decision_id, LIVE, 1, 2, 1, NOON, NOON, 0.0, Outcome.READY)
    app = replace(app_signals(2, 100.0, Capacity(2, 0.4, 480.0, 5.0, 20)), app=NAME, parallelism=2)
    measured = replace(signals(app), partition_loads=groups([4.0, 3.0, 2.5], [0, 1, 1], app=NAME))
    assert achieved_by(change, decision, measured) == {STATEFUL_BATCH: 5.5}
    without_capacity = replace(measured, apps=(replace(app, capacity=None),))
    assert achieved_by(change, decision, without_capacity) == {STATEFUL_BATCH: 5.5}
    more = replace(decision, predicted={**decision.predicted, "slots": 4.0})
    assert achieved_by(change, more, without_capacity) == {}


def test_placement_run_has_plan_proof_and_picture(tmp_path: Path, mlflow_uri: str) -> None:
    from mlflow import MlflowClient

    tracker = MlflowTracker(mlflow_uri, artifacts=(tmp_path / "artifacts").as_uri())
    w = placed(tmp_path, Placer(), arrival=400.0, tracker=tracker)
    decision = w.loop.decide(w.loop.observe())
    w.loop.apply(decision.decision_id)
    (stored,) = DecisionStore(w.lake).with_runs([decision])
    assert stored.mlflow_run_id is not None
    run = MlflowClient(mlflow_uri).get_run(stored.mlflow_run_id)
    told = run.data.metrics
    assert (told["placement_batch_before_s"], told["placement_batch_after_s"]) == (7.0, 6.0)
    assert (told["placement_bound_s"], told["placement_gap_s"]) == (5.0, 1.0)
    assert (told["placement_moves"], told["placement_placed"]) == (1, 1)
    assert run.data.params["placement.stage"] == "balanced"
    assert run.data.params["placement.seed"] == "7" and run.data.params["placement.budget"] == "none"
    artifacts = {a.path for a in MlflowClient(mlflow_uri).list_artifacts(stored.mlflow_run_id)}
    assert {"placement-albic.png", "placement-albic.json", "decision.json"} <= artifacts
