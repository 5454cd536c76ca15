from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.control.evaluation import Request
from millrace.control.proposals import FIRST, LAST, arbitrate, collect_proposals, forced_proposals, in_order
from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import AppDeployment, Change, Deployment
from millrace.model.errors import MillraceError
from millrace.model.signals import Signals
from millrace.optimizers.conformance.builders import app_signals, signals

CURRENT = Deployment(
    "delays",
    3,
    True,
    {
        "a": AppDeployment("x", (), 2, 1024, 8, parallelism={"map": 2, "sink": 1}),
        "b": AppDeployment("x", (), 4, 2048, 8),
    },
)
OWNERS = {"slots": "flow", "parallelism": "flow"}
plain = st.builds(
    Change,
    st.sampled_from(["a", "b", "nowhere"]),
    st.sampled_from(["slots", "memory_mb", "script"]),
    st.sampled_from([2, 4, 1024, 2048]),
    st.integers(1, 8),
)
of_operators = st.builds(
    Change,
    st.sampled_from(["a", "b"]),
    st.just("parallelism"),
    st.sampled_from([1, 2]),
    st.integers(1, 8),
    st.sampled_from([None, "map", "sink", "nobody"]),
)
names = st.sampled_from(["flow", "albic", "drfm"])


def proposal(optimizer: str, *wanted: Change) -> Proposal:
    return Proposal(optimizer, wanted, "r", "s")


def test_slots_of_an_app_that_is_not_deployed_yet_cannot_be_forced() -> None:
    with pytest.raises(MillraceError, match="Launch delays with its new spec first"):
        forced_proposals(Request(forced_slots=3), "c", CURRENT)


@given(
    names,
    st.lists(plain | of_operators, max_size=6),
    st.dictionaries(st.sampled_from(["slots", "memory_mb", "parallelism"]), names),
)
def test_arbitration_changes_only_owned_fields_and_loses_nothing(
    optimizer: str, wanted: list[Change], owners: dict[str, str]
) -> None:
    accepted, advice = arbitrate(proposal(optimizer, *wanted), CURRENT, owners)
    assert all(owners[c.field] == optimizer for c in accepted)
    after = CURRENT.with_changes(accepted)  # raises if something does not exist
    assert all(after.apps[c.app].value(c) == c.value != c.before for c in accepted)
    assert len({(c.app, c.field, c.operator) for c in accepted}) == len(accepted)
    told = list(accepted) + [a.change for a in advice]
    assert all(c in told or c.value == c.before for c in wanted)


def test_arbitration_advises_and_names_the_owner_of_a_field() -> None:
    accepted, advice = arbitrate(proposal("ds2", Change("a", "slots", 2, 4)), CURRENT, OWNERS)
    assert accepted == ()
    assert advice[0].sentence == "ds2 advises a: slots 2 -> 4 (slots belongs to flow)"


def test_arbitration_leaves_fields_without_owner_to_a_person() -> None:
    _, advice = arbitrate(proposal("flow", Change("a", "memory_mb", 1024, 2048)), CURRENT, OWNERS)
    assert "only a person" in advice[0].why


def test_arbitration_advises_if_the_value_before_is_stale() -> None:
    accepted, advice = arbitrate(proposal("flow", Change("a", "slots", 3, 4)), CURRENT, OWNERS)
    assert accepted == () and "expected 3" in advice[0].why


def test_arbitration_accepts_the_p_of_several_operators() -> None:
    wanted = (Change("a", "parallelism", 2, 4, "map"), Change("a", "parallelism", 1, 3, "sink"))
    accepted, advice = arbitrate(proposal("flow", *wanted), CURRENT, OWNERS)
    assert (accepted, advice) == (wanted, ())
    accepted, advice = arbitrate(proposal("flow", *wanted, Change("a", "parallelism", 2, 5, "map")), CURRENT, OWNERS)
    assert accepted == wanted and "twice" in advice[0].why


def test_arbitration_advises_on_an_operator_without_p() -> None:
    _, (nobody,) = arbitrate(proposal("flow", Change("a", "parallelism", 2, 4, "rank")), CURRENT, OWNERS)
    assert nobody.why == "a has no operator rank with its own parallelism"
    assert nobody.sentence.startswith("flow advises a: parallelism of rank 2 -> 4 (")
    unnamed, _ = arbitrate(proposal("flow", Change("a", "parallelism", 2, 4)), CURRENT, OWNERS)
    of_an_app_as_a_whole, _ = arbitrate(proposal("flow", Change("b", "parallelism", 4, 5, "map")), CURRENT, OWNERS)
    assert unnamed == of_an_app_as_a_whole == ()


def test_arbitration_advises_if_an_operators_p_is_stale() -> None:
    accepted, advice = arbitrate(proposal("flow", Change("a", "parallelism", 1, 4, "map")), CURRENT, OWNERS)
    assert accepted == () and "expected 1, but 2 is set" in advice[0].why


@given(st.permutations(["flow", "esj", "executor_memory", "albic", "waterfill", "drfm", "batch_limits"]))
def test_order_when_optimizers_come_in_any_order_then_placement_and_maps_follow_a_tuner(mixed: list[str]) -> None:
    assert in_order(mixed) == [*FIRST, "flow", *LAST]
    assert (*FIRST, *LAST) == ("drfm", "esj", "executor_memory", "batch_limits", "albic", "waterfill")


def test_order_of_several_tuners_is_fixed() -> None:
    assert in_order(["flow", "ds2", "albic"]) == in_order(["ds2", "albic", "flow"]) == ["ds2", "flow", "albic"]


@dataclass(frozen=True)
class Answers:
    """An optimizer that always answers the same."""

    answer: Any

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        return self.answer, {"asked": True}


def test_proposal_under_another_name_is_a_failure_that_names_both() -> None:
    wrong = {"mine": Answers(proposal("follow", Change("a", "slots", 2, 4)))}
    seen = signals(app_signals(2, 1.0, None))
    found = collect_proposals(wrong, seen, CURRENT, {}, {"slots": "mine"})
    assert found.content is CURRENT and not (found.changes or found.advice or found.memories)
    assert found.failure is not None
    assert "registered as mine" in found.failure and "named follow" in found.failure
    advised = collect_proposals(wrong, seen, CURRENT, {}, OWNERS)  # owning nothing, it does not block decisions
    assert advised.failure is None and [p.optimizer for p in advised.proposals] == ["mine"]
    assert "named follow" in advised.proposals[0].sentence and not advised.advice


def test_answer_that_is_not_a_proposal_is_a_failure() -> None:
    found = collect_proposals(
        {"mine": Answers(None)}, signals(app_signals(2, 1.0, None)), CURRENT, {}, {"slots": "mine"}
    )
    assert found.failure is not None and found.failure.startswith("mine failed: ") and "Proposal" in found.failure
