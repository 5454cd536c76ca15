"""A placement that is advised, through a whole evaluation: decision, words, run in MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from include.lake.decisions import DecisionStore
from include.lake.memories import MemoryStore
from include.model.decision import Action, Memory, Proposal
from include.model.deployment import Deployment
from include.model.placement import PlacementPlan
from include.model.signals import Signals
from include.reporting.tracker import MlflowTracker
from tests.include.control.world import NAME, World, world

SENTENCE = "move 1 key groups; load distance 25.0 -> 5.0, proven minimum 5.0"


def plan(**changes: Any) -> PlacementPlan:
    told: dict[str, Any] = {
        "method": "joint",
        "resource": "rows_per_s",
        "nodes": ("worker-1", "worker-2"),
        "operator": ("plane", "plane", "route"),
        "key_group": (0, 1, 0),
        "load": (40.0, 30.0, 30.0),
        "before": (0, 0, -1),
        "after": (0, 1, 1),
        "loads_before": (70.0, 0.0),
        "loads_after": (40.0, 60.0),
        "distance_before": 25.0,
        "distance_after": 5.0,
        "bound": 4.5,
        "collocation_before": 0.25,
        "collocation_after": 0.75,
        "pairs": 1,
        "spent": 1.0,
        "budget": None,
        "stage": "balanced",
        "seed": 7,
    }
    return PlacementPlan(**(told | changes))


@dataclass
class Placer:
    """Advises a placement, or is silent."""

    silent: bool = False
    remembered: list[Memory] = field(default_factory=list)

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Mapping[str, Any]]:
        self.remembered.append(memory)
        if self.silent:
            return Proposal("albic", (), "no_new_profile", ""), memory
        return Proposal("albic", (), "groups_to_move", SENTENCE, {"a": 1.0}, placement=plan()), {"seen": 1}


def placed(home: Path, placer: Placer, arrival: float = 800.0, tracker: MlflowTracker | None = None) -> World:
    w = world(home, tracker)
    w.loop.optimizers = {**w.loop.optimizers, "albic": placer}
    w.plant.arrival = arrival
    w.run()
    return w


def test_placement_is_advice_beside_the_slots(tmp_path: Path) -> None:
    w = placed(tmp_path, Placer(), arrival=400.0)
    decision = w.loop.decide(w.loop.observe())
    assert (decision.action, decision.reason_code) == (Action.ADVISE, "groups_to_move")
    assert decision.sentence == f"The slots fit the load. Advice by albic: {SENTENCE}."
    assert decision.target is None and w.loop.apply(decision.decision_id) == ()
    stored = DecisionStore(w.lake).get(decision.decision_id)
    assert stored is not None and stored.proposals[0].placement == plan()
    assert MemoryStore(w.lake).latest(NAME, "albic") == {"seen": 1}


def test_placement_advice_stands_beside_a_change_of_slots(tmp_path: Path) -> None:
    w = placed(tmp_path, Placer())
    decision = w.loop.decide(w.loop.observe())
    assert (decision.action, decision.reason_code) == (Action.APPLY, "under_provisioned")
    assert decision.sentence.startswith("delays: slots 2 -> 4: ")
    assert decision.sentence.endswith(f"Advice by albic: {SENTENCE}.")
    assert decision.predicted == {"processing_ability_rows_per_s": 960.0}, "what is not done predicts nothing"


def test_evaluation_without_placement_reads_as_without_placer(tmp_path: Path) -> None:
    w = placed(tmp_path, Placer(silent=True), arrival=400.0)
    decision = w.loop.decide(w.loop.observe())
    assert (decision.action, decision.reason_code, decision.sentence) == (
        Action.HOLD,
        "fits",
        "The slots fit the load.",
    )
    assert decision.mlflow_run_id is None


def test_placement_when_advised_then_its_run_has_plan_proof_and_picture(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    tracker = MlflowTracker(uri, artifacts=(tmp_path / "artifacts").as_uri())
    w = placed(tmp_path, Placer(), arrival=400.0, tracker=tracker)
    decision = w.loop.decide(w.loop.observe())
    assert decision.mlflow_run_id is not None
    run = MlflowClient(uri).get_run(decision.mlflow_run_id)
    told = run.data.metrics
    assert (told["placement_distance_before"], told["placement_distance_after"]) == (25.0, 5.0)
    assert (told["placement_bound"], told["placement_gap"]) == (4.5, 0.5)
    assert (told["placement_moves"], told["placement_placed"]) == (1, 1)
    assert run.data.params["placement.stage"] == "balanced"
    assert run.data.params["placement.seed"] == "7" and run.data.params["placement.budget"] == "none"
    artifacts = {a.path for a in MlflowClient(uri).list_artifacts(decision.mlflow_run_id)}
    assert {"placement-albic.png", "placement-albic.json", "decision.json"} <= artifacts
