from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millrace.model.codec import from_json, to_json
from millrace.model.deployment import Deployment
from millrace.model.placement import PartitionLoads, PotentialPlacement
from millrace.model.signals import Signals
from millrace.optimizers.albic.optimizer import Albic
from millrace.optimizers.albic.options import PlacementOptions
from millrace.optimizers.conformance.builders import deployment
from tests.optimizers.albic.partition_loads import FIRST, groups, look, running

SKEWED = [8.0, 8.0, 8.0, *[1.0] * 13]
TOGETHER = [0, 0, 0, *(1 + n % 3 for n in range(13))]
"""All three hot partitions on the first of four executors."""


def potential(
    told: PartitionLoads | None, current: Deployment, seen: dict[str, Any] | None = None, **options: Any
) -> PotentialPlacement | None:
    signals: Signals = look(told, **(seen or {}))
    return Albic(PlacementOptions(**options)).potential(signals, current, {})


def known(told: PartitionLoads, current: Deployment, **options: Any) -> PotentialPlacement:
    found = potential(told, current, **options)
    assert found is not None and found.known
    return found


def test_potential_of_hot_partitions_together_then_says_what_moving_them_brings() -> None:
    found = known(groups(SKEWED, TOGETHER, batch_s=30.0), running(4))
    assert found.now_s == 24.0 and found.planned_s < 11
    assert found.gain(fixed_s=6.0) == 24 / found.planned_s  # everything but the fixed cost is stateful
    assert 1 < found.gain(fixed_s=0.0) == 30 / (30 - 24 + found.planned_s)
    assert found.cause.startswith(f"partitions 0, 1 and 2 of {FIRST} make executor 0 the slowest, and moving ")
    assert found.cause.endswith(f"shortens the stateful part of a batch from 24.0 to {found.planned_s:.1f} s")
    assert from_json(PotentialPlacement, to_json(found)) == found


def test_potential_is_what_would_be_carried_out() -> None:
    told, current = groups(SKEWED, TOGETHER), running(4)
    proposal, _ = Albic(PlacementOptions(polish=False)).propose(look(told), current, {})
    assert proposal.placement is not None
    assert known(told, current).planned_s == proposal.placement.batch_after_s


def test_plan_that_saves_too_little_by_itself_is_made_if_the_tuner_counts_on_it() -> None:
    told, current = groups(SKEWED, TOGETHER, batch_s=300.0), running(4)
    found = known(told, current)
    assert found.planned_s < 11 and not found.pays and known(told, current, worth=0.01).pays
    placer = Albic(PlacementOptions())
    assert not placer.propose(look(told, potential=found), current, {})[0].changes
    assert placer.propose(look(told, potential=replace(found, needed=True)), current, {})[0].changes


def test_potential_without_a_budget_promises_nothing() -> None:
    found = known(groups(SKEWED, TOGETHER), running(4), budget=0)
    assert (found.planned_s, found.gain(0.0), found.cause) == (24.0, 1.0, "")


def test_potential_of_a_cause_names_only_hot_partitions() -> None:
    found = known(groups([8.0, 1.0, 1.0, 1.0], [0, 0, 0, 1]), running(2))
    assert found.cause.startswith(f"partition 0 of {FIRST} makes executor 0 the slowest, and moving ")


@pytest.mark.parametrize(("seen", "batches"), [({"settling": True}, 10), ({}, 1)])
def test_potential_before_enough_was_measured_then_is_not_known(seen: dict[str, Any], batches: int) -> None:
    found = potential(groups(SKEWED, TOGETHER, batches=batches), running(4), seen)
    assert found is not None and not found.known and found.gain(0.0) == 1.0


def test_two_batches_are_enough_for_a_plan_but_not_to_rule_one_out() -> None:
    assert known(groups(SKEWED, TOGETHER, batches=2), running(4)).planned_s < 11
    unclear = groups(SKEWED, TOGETHER, batches=2, busy_error_s=(20.0,) * len(SKEWED))
    found = potential(unclear, running(4))
    assert found is not None and not found.known
    assert known(replace(unclear, batches=3), running(4)).gain(0.0) == 1.0


def test_plan_of_two_batches_is_carried_out_only_if_the_tuner_counts_on_it() -> None:
    told, placer = groups(SKEWED, TOGETHER, batches=2), Albic(PlacementOptions())
    found = known(told, running(4))
    assert not placer.propose(look(told, potential=found), running(4), {})[0].changes
    assert placer.propose(look(told, potential=replace(found, needed=True)), running(4), {})[0].changes


@pytest.mark.parametrize(
    ("told", "current"),
    [
        (None, running(2)),
        (groups([], []), running(2)),
        (groups([1.0], [0]), deployment(2)),
        (groups([0.0], [0]), running(2)),
    ],
)
def test_potential_without_state_or_executors_then_is_none(told: PartitionLoads | None, current: Deployment) -> None:
    assert potential(told, current) is None


def test_potential_when_not_integrated_then_is_none() -> None:
    assert potential(groups(SKEWED, TOGETHER), running(4), framework="non_integrated") is None


def test_spread_on_fewer_executors_counts_a_group_that_exceeds_an_even_share() -> None:
    found = known(groups([5.0, 5.0, 5.0], [0, 1, 2]), running(3))
    assert found.even_ratio == 1.0 and found.fewer == (1.0, 0.75)
    assert (found.share_on(1), found.share_on(2), found.share_on(3)) == (1.0, 0.75, 1.0)


def test_spread_of_one_heavy_group_is_no_worse_on_fewer_executors() -> None:
    """Whoever has it decides how long a batch takes: the other executors idle already."""
    found = known(groups([10.0, *[1.0] * 10], [0, *(1 + n % 3 for n in range(10))]), running(4))
    assert found.even_ratio == 0.5 and found.fewer[1] == 1.0 and found.share_on(2) == 1.0


def test_spread_on_executors_that_cannot_hold_the_state_then_is_nothing() -> None:
    told = groups([1.0] * 4, [0, 1, 2, 3], state_bytes=(60_000_000,) * 4)
    found = known(told, running(4), max_state_mb=130.0)
    assert found.fewer[0] == 0.0 and found.fewer[1] == 1.0 and found.share_on(1) == 0.0


def test_potential_of_executors_with_several_cores_then_levels_are_executors() -> None:
    found = known(groups([1.0] * 8, [n % 4 for n in range(8)]), running(4, cores=2))
    assert found.slots == 8 and len(found.fewer) == 3
    assert found.share_on(4) == found.fewer[1] / found.even_ratio


def test_impossible_loads_are_left_to_the_proposal() -> None:
    assert potential(groups([1.0, float("inf")], [0, 1]), running(2)) is None


def test_potential_of_many_executors_then_leaves_out_fewer() -> None:
    told = groups([1.0] * 40, list(range(40)))
    assert known(told, replace(running(40))).fewer == ()
