from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from include.contracts.decision import Proposal
from include.contracts.deployment import AppDeployment, Change, Deployment
from include.control.arbiter import ORDER, in_order, rule

CURRENT = Deployment(
    "delays", 3, True, {"a": AppDeployment("x", (), 2, 1024, 8), "b": AppDeployment("x", (), 4, 2048, 8)}
)
OWNERS = {"slots": "conttune"}
changes = st.builds(
    Change,
    st.sampled_from(["a", "b", "nowhere"]),
    st.sampled_from(["slots", "memory_mb", "parallelism"]),
    st.sampled_from([2, 4, 1024, 2048]),
    st.integers(1, 8),
)
names = st.sampled_from(["conttune", "albic", "drfm"])


def proposal(optimizer: str, *wanted: Change) -> Proposal:
    return Proposal(optimizer, wanted, "r", "s")


@given(
    names,
    st.lists(changes, max_size=6),
    st.integers(0, 2),
    st.dictionaries(st.sampled_from(["slots", "memory_mb"]), names),
)
def test_rule_when_given_any_proposal_then_only_owned_fields_change_and_nothing_is_lost(
    optimizer: str, wanted: list[Change], level: int, owners: dict[str, str]
) -> None:
    ruling = rule(proposal(optimizer, *wanted), CURRENT, owners, level)
    assert all(owners[c.field] == optimizer for c in ruling.accepted)
    after = CURRENT.with_changes(ruling.accepted)  # raises for what does not exist
    assert all(getattr(after.apps[c.app], c.field) == c.value != c.before for c in ruling.accepted)
    assert len({(c.app, c.field) for c in ruling.accepted}) == len(ruling.accepted)
    told = list(ruling.accepted) + [a.change for a in ruling.advice]
    assert all(c in told or c.value == c.before for c in wanted)


def test_rule_when_another_owns_the_field_then_gives_advice_that_names_the_owner() -> None:
    ruling = rule(proposal("ds2", Change("a", "slots", 2, 4)), CURRENT, OWNERS, 0)
    assert ruling.accepted == ()
    assert ruling.advice[0].sentence == "ds2 advises a: slots 2 -> 4 (slots belongs to conttune)"


def test_rule_when_nobody_owns_the_field_then_it_changes_by_hand_only() -> None:
    ruling = rule(proposal("conttune", Change("a", "memory_mb", 1024, 2048)), CURRENT, OWNERS, 0)
    assert "by hand" in ruling.advice[0].why


def test_rule_when_the_level_is_too_low_then_gives_advice() -> None:
    ruling = rule(proposal("conttune", Change("a", "parallelism", 2, 4)), CURRENT, {"parallelism": "conttune"}, 0)
    assert ruling.accepted == () and "level L0" in ruling.advice[0].why


def test_rule_when_the_proposal_counted_on_another_value_then_gives_advice() -> None:
    ruling = rule(proposal("conttune", Change("a", "slots", 3, 4)), CURRENT, OWNERS, 0)
    assert ruling.accepted == () and "counted on 3" in ruling.advice[0].why


@given(st.permutations(["conttune", "esj", "albic", "drfm", "ds2"]))
def test_order_when_optimizers_come_in_any_order_then_slots_come_last(mixed: list[str]) -> None:
    assert in_order(mixed) == [*ORDER, "ds2"]
