"""The integrated framework in an evaluation: the tuner knows what placement alone would change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from millrace.control.decide import Question, decide
from millrace.control.guard_context import guard_context
from millrace.control.proposals import collect_proposals
from millrace.model.codec import from_json, to_json
from millrace.model.decision import Action, Decision, Memory, Proposal
from millrace.model.deployment import PLACEMENT, Change, Deployment, ExecutorSize
from millrace.model.placement import PLACEMENT_FIRST, PotentialPlacement
from millrace.model.signals import Signals
from tests.include.control.test_decide import SIGNALS, context, deployment, observation
from tests.include.control.world import NAME, NOON, spec

SENTENCE = "No slots are added: partition 1 makes executor 0 the slowest."
POTENTIAL = PotentialPlacement(NAME, 2, 1, now_s=2.0, planned_s=1.0)
EMBEDDED = {"submit": {"master": "embedded"}}


@dataclass
class Placer:
    """Moves a partition, and says before that this helps; raises an error if it is broken."""

    broken: bool = False
    asked_with: list[tuple[int, Memory]] = field(default_factory=list)

    def potential(self, signals: Signals, current: Deployment, memory: Memory) -> PotentialPlacement | None:
        if self.broken:
            raise ValueError("broken")
        self.asked_with.append((current.apps[NAME].slots, memory))
        return POTENTIAL

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        move = Change(NAME, PLACEMENT, -1, 1, "q/0", None, 1)
        return Proposal("albic", (move,), "partitions_to_move", "1 state partition moves"), memory


class Tuner:
    """Adds two slots unless placement helps."""

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Mapping[str, Any]]:
        if signals.potential is not None:
            return Proposal("flow", (), PLACEMENT_FIRST, SENTENCE), {"placed": True}
        change = Change(NAME, "slots", current.apps[NAME].slots, 4)
        return Proposal("flow", (change,), "under_provisioned", "4 slots are enough"), {}


def on_executors() -> Deployment:
    current = deployment()
    return replace(current, apps={NAME: replace(current.apps[NAME], executor=ExecutorSize(1, 512))})


def decided(placer: Placer, undone: Deployment | None = None, **changes: Any) -> tuple[Decision, Mapping[str, Memory]]:
    current, asked = on_executors(), spec(**EMBEDDED)
    given: dict[str, Any] = {
        "optimizers": {"flow": Tuner(), "albic": placer},
        "spec": asked,
        "owners": asked.field_owners,
        "guards": guard_context(asked, current, NOON, (), {}, {}, (), undone=undone),
        "memories": {"albic": {"moved": {}}},
    }
    return decide(observation(), context(current, **(given | changes)))


def test_placement_is_the_decision_if_it_is_enough() -> None:
    placer = Placer()
    decision, memories = decided(placer)
    assert placer.asked_with == [(2, {"moved": {}})]
    assert (decision.action, decision.reason_code) == (Action.APPLY, "partitions_to_move")
    assert {change.field for change in decision.changes} == {PLACEMENT} and memories == {"flow": {"placed": True}}
    moves = f"{NAME}: placement of 1 state partition: {SENTENCE} 1 state partition moves."
    assert decision.sentence == moves
    assert decision.signals is not None and decision.signals.potential == replace(POTENTIAL, needed=True)
    assert from_json(Decision, to_json(decision)).signals == decision.signals


def test_slots_are_added_if_a_person_has_just_undone_a_placement() -> None:
    current = on_executors()
    undone = replace(current, apps={NAME: replace(current.apps[NAME], placement={"q/0": (0, 1)})})
    decision, memories = decided(Placer(), undone)
    assert (decision.action, decision.reason_code) == (Action.APPLY, "under_provisioned")
    assert decision.target is not None and decision.target.apps[NAME].slots == 4 and memories == {"flow": {}}
    assert decision.signals is not None and decision.signals.potential is None


def test_slots_are_asked_for_if_a_person_refused_the_placement() -> None:
    asked, _ = decided(Placer(), action=Action.AWAIT)
    assert asked.action is Action.AWAIT and asked.target is not None and asked.target.slots == 2
    refusal = replace(asked, action=Action.VETO, reason_code="rejected", target=None)
    again, _ = decided(Placer(), action=Action.AWAIT, questions=(Question(asked, refusal),))
    assert again.action is Action.AWAIT and again.target is not None and again.target.slots == 4


def test_placement_that_may_only_advise_is_not_counted_on() -> None:
    owners = {"slots": "flow", "placement": "another"}
    found = collect_proposals({"flow": Tuner(), "albic": Placer()}, SIGNALS, on_executors(), {}, owners)
    assert found.content.apps[NAME].slots == 4


def test_failure_names_the_optimizer_that_places() -> None:
    decision, memories = decided(Placer(broken=True))
    assert (decision.action, decision.reason_code, memories) == (Action.HOLD, "optimizer_failed", {})
    assert "albic failed: ValueError: broken" in decision.sentence
