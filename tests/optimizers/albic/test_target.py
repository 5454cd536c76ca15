from __future__ import annotations

from dataclasses import replace

import numpy as np

from millrace.optimizers.albic.joint_prices import prices
from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.albic.savings import edges
from millrace.optimizers.albic.search_context import contract_context, search_context
from millrace.optimizers.albic.target import LOOSE, Target, binding_edges, find_target, kept_units
from tests.optimizers.albic.jobs import chains, collocation, pairs, problem


def _aimed(given: Problem, seed: int = 0) -> Target | None:
    context = search_context(given, np.ones(len(given.flows.rate), dtype=bool))
    return find_target(given, context.edges, context.heavy, context.prices, given.node, seed)


def test_target_when_chains_fit_on_nodes_then_each_has_one_evenly() -> None:
    given = chains(4, 8, 4)
    target = _aimed(given)
    assert collocation(given, target.node) == 1.0
    assert given.distance(target.node) < 1e-9
    assert not target.cut


def test_target_when_chains_are_placed_then_most_of_it_stays() -> None:
    given = chains(4, 8, 4)
    stays = (_aimed(given).node == given.node).sum()
    best = max((given.node[np.arange(32) % 4 == c] == n).sum() for c in range(4) for n in range(4))
    assert stays >= best


def test_target_when_there_are_many_chains_then_nodes_are_even_too() -> None:
    given = chains(30, 4, 5)
    target = _aimed(given)
    assert collocation(given, target.node) == 1.0
    assert given.distance(target.node) <= 3.0


def test_target_when_all_are_connected_then_is_cut_into_a_part_per_node() -> None:
    given = chains(1, 40, 4)
    target = _aimed(given)
    assert target.cut
    assert collocation(given, target.node) >= 0.8
    assert given.distance(target.node) <= 10


def test_aim_when_groups_have_one_partner_then_is_none() -> None:
    assert _aimed(pairs(20, 5, 5)) is None


def test_target_when_everything_is_in_place_then_is_none() -> None:
    given = chains(4, 8, 4)
    assert _aimed(replace(given, node=_aimed(given).node)) is None


def test_aim_when_a_node_is_marked_then_sends_nothing_there() -> None:
    given = replace(chains(6, 6, 4), removed=np.array([False, True, False, False]))
    node = _aimed(given).node
    assert not given.removed[node[node != LOOSE]].any()


def test_binding_flow_is_most_of_the_savings_of_one_end() -> None:
    star = problem([0] * 6, nodes=2, edges=[(0, 1, 1.0), *[(2, k, 1.0) for k in (3, 4, 5)], (0, 2, 0.2)])
    found = edges(star, star.operator)
    bound = {
        (int(a), int(b))
        for a, b in zip(*(e[binding_edges(star, found)] for e in (found.group, found.other)), strict=True)
    }
    assert (0, 1) in bound and (2, 3) in bound
    assert (0, 2) not in bound


def test_kept_units_when_a_unit_is_too_large_then_splits_it() -> None:
    given = problem([0, 0, 1], nodes=2, load=10.0, edges=[(0, 1, 2.0)], saved=1.0)
    assert len(np.unique(kept_units(given, edges(given, given.operator), given.node, 16.0))) == 2
    assert len(np.unique(kept_units(given, edges(given, given.operator), given.node, 15.9))) == 3


def test_contract_context_makes_further_moves_of_moved_groups_free() -> None:
    given = problem([0, 1, 1], nodes=2, edges=[(0, 1, 4.0)], budget=2)
    context = search_context(given, np.ones(1, dtype=bool))
    node = np.array([1, 1, 1])
    small, units = contract_context(context, node)
    assert units[0] == units[1] != units[2]
    assert small.problem.budget == 1.0
    assert np.isclose(small.problem.cost[units[0]], 1.0, atol=1e-3)
    np.testing.assert_allclose(small.problem.loads(small.problem.node), given.loads(node))


def test_prices_when_costs_differ_then_an_expensive_move_must_save_more() -> None:
    given = replace(problem([0, 1], nodes=2), cost=np.array([1.0, 3.0]))
    move = prices(given).move
    assert move[1] == 3 * move[0]
