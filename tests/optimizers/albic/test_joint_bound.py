from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from millrace.optimizers.albic.joint_bound import joint_lower_bound
from millrace.optimizers.albic.problem import Problem
from tests.examples import examples
from tests.optimizers.albic.jobs import pairs, placements, problem, problems


@given(problems(most_groups=6, most_nodes=3))
@examples(250)
def test_lower_is_undercut_by_no_placement_within_the_budget(given: Problem) -> None:
    best = min(given.distance(node) for node in placements(given))
    assert joint_lower_bound(given) <= best + 1e-9


def test_lower_when_nothing_may_move_then_is_the_present_load_distance() -> None:
    held = replace(pairs(20, 5, 0.0), budget=0.0)
    assert joint_lower_bound(held) == pytest.approx(held.distance(held.node))


def test_lower_when_collocation_can_lower_a_node_then_counts_on_it() -> None:
    # node 0 has 20, node 1 has 10: bringing the pair together on node 0 lowers it by all that both save
    chance = problem([0, 0, 1], nodes=2, load=[10.0, 10.0, 10.0], edges=[(0, 2, 10.0)], saved=1.0, budget=1.0)
    best = min(chance.distance(node) for node in placements(chance))
    assert joint_lower_bound(chance) <= best


def test_lower_when_a_group_exceeds_a_nodes_share_then_is_the_excess() -> None:
    giant = problem([0, 0, 1, 1], nodes=2, load=[90.0, 5.0, 5.0, 5.0], budget=np.inf)
    assert joint_lower_bound(giant) == pytest.approx(90 - 105 / 2)


def test_lower_when_few_moves_cannot_reach_the_mean_then_is_above_zero() -> None:
    far = problem([0] * 20 + [1], nodes=2, load=5.0, budget=2.0)
    assert joint_lower_bound(far) == pytest.approx(52.5 - 15)
    assert min(far.distance(n) for n in _some_moves(far)) >= joint_lower_bound(far) - 1e-9


def _some_moves(far: Problem) -> list[np.ndarray]:
    found = []
    for count in range(3):
        node = far.node.copy()
        node[:count] = 1
        found.append(node)
    return found
