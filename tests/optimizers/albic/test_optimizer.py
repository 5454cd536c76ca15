from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.codec import from_json, to_json
from millrace.model.decision import Proposal
from millrace.model.deployment import PLACEMENT, Deployment
from millrace.model.errors import MillraceError
from millrace.model.placement import STATEFUL_BATCH, PartitionLoads, Speeds
from millrace.optimizers.conformance.builders import APP, deployment
from millrace.optimizers.registry import Role, create
from tests.examples import examples
from tests.optimizers.albic.partition_loads import FIRST, SECOND, groups, look, proposed, running

SKEWED = [8.0, 8.0, 8.0, *[1.0] * 13]
"""Three hot partitions of 16."""
BY_NUMBER = [n % 4 for n in range(16)]
TOGETHER = [0, 0, 0, *(1 + n % 3 for n in range(13))]
"""All hot ones on one executor."""


def placed(proposal: Proposal, current: Deployment) -> dict[str, tuple[int, ...]]:
    return dict(current.with_changes(proposal.changes).apps[APP].placement)


def batch_s(told: PartitionLoads, placement: dict[str, tuple[int, ...]]) -> float:
    executor = tuple(placement[o][p] for o, p in zip(told.operator, told.partition, strict=True))
    return replace(told, executor=executor).stateful_batch_s(1)


def test_hot_partitions_on_one_worker_are_spread_within_the_budget() -> None:
    told, current = groups(SKEWED, TOGETHER), running(4)
    proposal, memory = proposed(told, current)
    assert proposal.reason_code == "partitions_to_move" and {c.field for c in proposal.changes} == {PLACEMENT}
    plan = proposal.placement
    assert plan is not None and 0 < plan.moves <= 8
    after_s = batch_s(told, placed(proposal, current))
    assert after_s == plan.batch_after_s == proposal.predicted[STATEFUL_BATCH] < 11 < 24 == plan.batch_before_s
    assert plan.bound_s == 37 / 4 <= after_s
    assert "24.0 ->" in proposal.sentence and "less than 9.2 s" in proposal.sentence
    assert len(memory["moved"]) == plan.moves


def test_good_placement_in_force_stays() -> None:
    told, current = groups(SKEWED, TOGETHER), running(4)
    first, memory = proposed(told, current)
    current = current.with_changes(first.changes)
    proposal, after = proposed(told, current, memory)
    assert (proposal.changes, proposal.placement, after) == ((), None, {**memory, "doubt": 0.0})


def test_noise_moves_nothing() -> None:
    told = groups([1.0, 1.02, 0.98, 1.03] * 4, BY_NUMBER)
    assert proposed(told, running(4))[0].reason_code == "placement_stays"
    unsure = groups(SKEWED, TOGETHER, busy_error_s=(20.0,) * 16)
    assert proposed(unsure, running(4))[0].changes == ()


def test_gain_that_hardly_shortens_the_batch_moves_nothing() -> None:
    told = groups(SKEWED, TOGETHER, batch_s=300.0)
    assert proposed(told, running(4))[0].reason_code == "placement_stays"
    assert proposed(told, running(4), options={"worth": 0.01})[0].changes


@pytest.mark.parametrize("changes", [{"batches": 2}, {"executor": tuple(n % 5 for n in range(16))}])
def test_nothing_moves_until_enough_was_measured(changes: dict[str, Any]) -> None:
    told = groups(SKEWED, **({"executor": TOGETHER} | changes))
    assert proposed(told, running(4))[0].reason_code == "placement_settles"


def test_nothing_moves_while_the_last_change_settles() -> None:
    signals = look(groups(SKEWED, TOGETHER), settling=True)
    proposal, _ = create("albic", {}, Role.PLACEMENT).propose(signals, running(4), {})
    assert proposal.reason_code == "placement_settles"


def test_new_executors_get_their_share_in_the_same_decision() -> None:
    told = groups([4.0, 4.0, 1.0, 1.0, 1.0, 1.0], [0, 1, 0, 0, 1, 1])
    current = running(4, {FIRST: told.executor})
    proposal, _ = proposed(told, current, options={"budget": 0})
    assert proposal.reason_code == "executors_changed"
    assert set(placed(proposal, current)[FIRST]) == {0, 1, 2, 3}


def test_placement_of_an_earlier_query_forces_nothing() -> None:
    told = groups([1.0] * 4, [0, 1, 0, 1])
    assert proposed(told, running(2, {"former/0": (0, 1, 2, 3)}))[0].reason_code == "placement_stays"


def test_partitions_run_where_they_were_measured_if_the_named_executor_does_not_exist() -> None:
    """The Deployment names executor 2, but the two that run are 0 and 1."""
    told = groups([4.0, 4.0, 4.0, 1.0, 1.0, 1.0, 1.0, 2.0], [0, 0, 0, 1, 0, 1, 0, 1])
    current = running(2, {FIRST: (0, 0, 2, 2, 2, 2, 2, 2)})
    proposal, _ = proposed(told, current)
    assert proposal.placement is not None and proposal.placement.batch_before_s == 14.0
    assert set(placed(proposal, current)[FIRST]) == {0, 1}


def test_partitions_are_expected_on_an_executor_that_has_yet_to_come() -> None:
    told = groups([4.0, 4.0, 2.0, 2.0], [0, 1, 0, 1])
    assert proposed(told, running(3, {FIRST: (0, 1, 2, 2)}))[0].reason_code == "placement_stays"


def test_removed_executors_keep_no_partition_of_an_idle_query() -> None:
    told = groups([4.0, 1.0, 1.0, 4.0], [0, 1, 2, 3])
    current = running(2, {FIRST: told.executor, "idle/0": (0, 1, 2, 3, -1), "former/0": (1, 2)})
    proposal, _ = proposed(told, current)
    after = placed(proposal, current)
    assert set(after.pop(FIRST)) == {0, 3} and after == {"idle/0": (0, -1, -1, 3, -1)}


def test_removed_executors_are_the_emptiest_and_lose_their_partitions() -> None:
    told = groups([4.0, 3.0, 1.0, 2.0], [0, 1, 2, 3])
    current = running(2, {FIRST: told.executor})
    proposal, _ = proposed(told, current, options={"budget": 0})
    assert proposal.reason_code == "executors_changed"
    assert placed(proposal, current)[FIRST] == (0, 1, 1, 0) or placed(proposal, current)[FIRST][:2] == (0, 1)
    assert "on 2 executors" in proposal.sentence


def test_growth_is_left_to_the_agent_if_nothing_is_placed() -> None:
    told = groups([1.0] * 4, [0, 1, 0, 1])
    proposal, _ = proposed(told, running(2))
    assert (proposal.changes, proposal.sentence) == ((), "")


def test_operators_of_two_stages_are_balanced_separately() -> None:
    told = groups([4.0, 4.0, 0.0, 0.0], [0, 0, 1, 1, 0, 0, 1, 1], second=[0.0, 0.0, 4.0, 4.0])
    current = running(2)
    proposal, _ = proposed(told, current)
    after = placed(proposal, current)
    assert batch_s(told, after) == 8 and set(after) == {FIRST, SECOND}


def test_skew_that_no_placement_fixes_is_reported() -> None:
    told = groups([10.0, 1.0, 1.0, 1.0], [0, 1, 2, 3])
    proposal, _ = proposed(told, running(4))
    assert (proposal.reason_code, proposal.changes) == ("skewed_keys", ())
    assert proposal.sentence.startswith(f"Partition 0 of {FIRST} takes 77 % of its stage's time")
    assert "max_parallelism" in proposal.sentence and proposal.sentence.endswith("millrace.windows.partitioning")
    named, _ = proposed(replace(told, hot=(("UA", 0.413), ("B6", 0.3))), running(4))
    assert named.sentence.endswith("; the streams with the most rows are UA (41 %), B6 (30 %)")


def test_skew_is_reported_if_another_executor_has_no_use() -> None:
    told = groups([10.0, *[0.5] * 7], [0, *[1] * 7])
    proposal, _ = proposed(told, running(3, {FIRST: told.executor}))
    assert (proposal.reason_code, proposal.changes) == ("skewed_keys", ())


def test_slow_worker_is_named() -> None:
    told = groups([1.0] * 16, BY_NUMBER, speeds=Speeds((3,), (0.25,)))
    proposal, _ = proposed(told, running(4))
    assert proposal.placement and proposal.sentence.endswith("; executor 3 runs at 0.2 times the mean speed")
    assert from_json(Proposal, to_json(proposal)) == proposal
    after = proposal.placement.busy_after_s
    assert max(after) < max(proposal.placement.busy_before_s) == 16.0


@pytest.mark.parametrize(
    ("told", "current"),
    [(None, running(2)), (groups([], []), running(2)), (groups([1.0, 9.0], [0, 0]), deployment(2))],
    ids=["idle", "without state", "without executors"],
)
def test_unmeasured_app_gets_no_answer(told: PartitionLoads | None, current: Deployment) -> None:
    proposal, memory = proposed(told, current, {"moved": {}})
    assert (proposal.reason_code, proposal.sentence, memory) == ("partitions_not_measured", "", {"moved": {}})


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_impossible_figures_hold_with_the_reason(seconds: float) -> None:
    proposal, memory = proposed(groups([1.0, seconds], [0, 1]), running(2), {"moved": {}})
    assert (proposal.reason_code, proposal.changes, memory) == ("bad_signals", (), {"moved": {}})
    assert "load[1]" in proposal.sentence


def test_zero_budget_moves_nothing() -> None:
    proposal, _ = proposed(groups(SKEWED, TOGETHER), running(4), options={"budget": 0})
    assert (proposal.changes, proposal.placement) == ((), None)


def test_plan_that_pays_only_with_the_next_one_is_started() -> None:
    """Two executors are equally busy. A batch gets shorter only once both have given something away."""
    busy_s, current = [2.1, 2.1, 2.0, 2.0], running(4)
    options = {"budget": 1, "rest_s": 0}
    first, memory = proposed(groups(busy_s, [0, 0, 1, 1]), current, options=options)
    assert first.placement is not None and first.placement.moves == 1
    assert first.placement.followed_s == 2.1 and "after the remaining moves, it takes 2.1 s" in first.sentence
    moved = placed(first, current)[FIRST]
    second, _ = proposed(groups(busy_s, moved), running(4), memory, options)
    assert second.placement is not None and second.placement.followed_s is None
    assert second.placement.batch_after_s == 2.1
    # two plans predicted to save 30 % each do not pay if both save half
    dear = proposed(groups(busy_s, [0, 0, 1, 1]), running(4), options=options | {"worth": 0.3})[0]
    assert dear.changes == ()


def test_plan_is_polished_and_the_proof_is_reported() -> None:
    first, second = [5, 6, 9, 1, 8, 4, 1, 3], [3, 2, 3, 8, 3, 3, 1, 1]
    told = groups(first, [0, 1, 1, 0, 1, 2, 0, 2, 0, 0, 2, 0, 1, 1, 0, 1], second)
    plain = proposed(told, running(3), options={"polish": False, "budget": 3})[0].placement
    proposal, _ = proposed(told, running(3), options={"budget": 3})
    assert plain is not None and proposal.placement is not None
    assert proposal.placement.batch_after_s < plain.batch_after_s and proposal.placement.moves <= 3
    assert proposal.placement.stage.endswith("polished, optimal")
    assert ", and none within the budget beats this one" in proposal.sentence


def test_partitions_without_rows_stay_and_weigh_nothing() -> None:
    busy_s = [8.0, 8.0, *[0.0] * 6]
    proposal, _ = proposed(groups(busy_s, [0] * 8, rows=(100.0,) * 2 + (0.0,) * 6), running(4))
    assert proposal.placement is not None and proposal.placement.moves == 1
    idle = proposed(groups([0.0] * 8, [0] * 8, rows=(0.0,) * 8), running(4))[0]
    assert idle.changes == ()


@pytest.mark.parametrize("method", ["joint", "albic", "balancer"])
def test_every_method_shortens_the_batch(method: str) -> None:
    plan = proposed(groups(SKEWED, TOGETHER), running(4), options={"method": method})[0].placement
    assert plan is not None and plan.method == method and plan.batch_after_s < 16 < plan.batch_before_s


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"method": "best"}, "method"),
        ({"budget": -1}, "budget"),
        ({"cost": "money"}, "cost"),
        ({"worth": 2}, "worth"),
        ({"rest_s": -1}, "rest_s"),
        ({"max_state_mb": 0}, "max_state_mb"),
        ({"max_memory_mb": 0}, "max_memory_mb"),
        ({"max_busy_ratio": 1.1}, "max_busy_ratio"),
        ({"seed": -1}, "seed"),
        ({"sead": 1}, "sead"),
    ],
)
def test_options_when_wrong_then_are_refused_by_name(options: dict[str, object], key: str) -> None:
    with pytest.raises(MillraceError, match=rf"placement\.options\.{key}: got .*; allowed: ") as told:
        create("albic", options, Role.PLACEMENT)
    assert told.value.remedy


junk = st.none() | st.integers(-5, 5) | st.text(max_size=3)


@given(
    moved=st.dictionaries(st.sampled_from([f"{FIRST}/0", f"{FIRST}/3", "x"]), junk) | junk,
    plan=st.dictionaries(st.sampled_from(["planned_s", "busy_s", "executors", "doubt"]), junk),
)
@examples(30)
def test_junk_in_its_memory_is_ignored(moved: object, plan: dict[str, object]) -> None:
    told, stored = groups(SKEWED, TOGETHER), {"moved": moved, **plan}
    proposal, memory = proposed(told, running(4), stored, {"polish": False})
    assert from_json(Proposal, to_json(proposal)) == proposal
    assert json.loads(json.dumps(memory, allow_nan=False)) == memory


def test_same_signals_give_the_same_plan() -> None:
    told = groups([float(i) for i in range(20)], [i % 3 for i in range(20)])
    assert proposed(told, running(4)) == proposed(told, running(4))
