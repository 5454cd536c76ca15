"""ALBIC, and each correction of it compared with the paper's literal text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from millrace.optimizers.albic.graph import heavy
from millrace.optimizers.albic.paper.albic import place
from millrace.optimizers.albic.paper.collocation import improve, maintain
from millrace.optimizers.albic.paper.options import LITERAL, LIVE, AlbicOptions
from millrace.optimizers.albic.problem import Problem
from tests.examples import examples
from tests.optimizers.albic.jobs import after, collocation, pairs, problem, problems

CORRECTED = AlbicOptions(corrected=True)
BOTH = pytest.mark.parametrize("options", [LITERAL, CORRECTED], ids=["literal", "corrected"])


@given(problems())
@examples(30)
def test_place_when_corrected_then_keeps_the_budget(given: Problem) -> None:
    plan = place(given, options=CORRECTED)
    assert ((plan.node >= 0) & (plan.node < given.nodes)).all()
    assert given.spent(plan.node) <= given.budget + 1e-9
    assert not (given.removed[plan.node] & (plan.node != given.node)).any()
    assert plan.bound <= given.distance(plan.node) + 1e-9


@BOTH
def test_place_when_one_to_one_then_collocates_a_pair_per_period(options: AlbicOptions) -> None:
    given = pairs(8, 4, 4)
    for period in range(4):
        given = after(given, place(given, options=options).node)
        assert given.flows.near(given.node).sum() >= period + 1


@BOTH
def test_place_when_pairs_are_collocated_then_they_stay_together(options: AlbicOptions) -> None:
    given = pairs(8, 4, 6)
    for _ in range(4):
        before = given.flows.near(given.node)
        given = after(given, place(given, options=options).node)
        assert given.flows.near(given.node)[before].all()


def test_place_when_repeated_then_is_the_same() -> None:
    given = pairs(20, 5, 5)
    np.testing.assert_array_equal(place(given, seed=4).node, place(given, seed=4).node)


def _stuck() -> Problem:
    """The heaviest pair is apart, and the state of either group is larger than the budget; a lighter one fits."""
    edges = [(0, 1, 9.0), (2, 3, 3.0)]
    given = problem([0, 1, 0, 1], nodes=2, load=4.0, edges=edges, saved=0.1, budget=1, operator=[0, 1, 0, 1])
    return replace(given, cost=np.array([5.0, 5.0, 1.0, 1.0]), budget=2.0)


def test_improve_when_a_pair_is_too_expensive_then_corrected_takes_the_next() -> None:
    apart = np.array([True, True])
    assert improve(_stuck(), np.arange(4), apart, LITERAL, 0).flow == 0
    assert improve(_stuck(), np.arange(4), apart, CORRECTED, 0).flow == 1


def test_place_when_a_pair_exceeds_the_budget_then_literal_is_stuck() -> None:
    literal = corrected = _stuck()
    for seed in range(4):
        literal = after(literal, place(literal, seed=seed, options=LITERAL).node)
        corrected = after(corrected, place(corrected, seed=seed, options=CORRECTED).node)
    assert not literal.flows.near(literal.node).any()
    assert corrected.flows.near(corrected.node)[1]


def test_maintain_when_a_part_is_too_large_then_corrected_cuts_again() -> None:
    # a star: METIS balances counts as well as possible, but the hub's part is beyond maxPL
    load = [20.0, 9.0, 9.0, 9.0, 2.0, 2.0, 2.0, 2.0]
    edges = [(0, k, 10.0 - k) for k in range(1, 8)]
    given = problem([0] * 8, nodes=1, load=load, edges=edges, saved=0.0, budget=100, operator=[0] + [1] * 7)
    collocated = np.ones(7, dtype=bool)

    def heaviest(options: AlbicOptions) -> float:
        units = maintain(given, collocated, 21.0, options, 0)
        several = np.bincount(units)[units] > 1
        return float(np.bincount(units[several], weights=given.load[several], minlength=1).max(initial=0))

    assert heaviest(LITERAL) > 21.0
    assert heaviest(CORRECTED) <= 21.0


def test_maintain_makes_no_part_cost_more_than_the_budget() -> None:
    edges = [(k, k + 1, 1.0) for k in range(9)]
    given = problem([0] * 10, nodes=2, load=1.0, edges=edges, saved=0.1, budget=3)
    units = maintain(given, np.ones(9, dtype=bool), 25.0, CORRECTED, 0)
    assert np.bincount(units).max() <= 3


def test_maintain_when_pairs_are_apart_then_puts_them_in_no_set() -> None:
    given = problem([0, 0, 1], nodes=2, edges=[(0, 1, 1.0), (1, 2, 1.0)])
    units = maintain(given, given.flows.near(given.node), 25.0, CORRECTED, 0)
    assert units[0] == units[1] != units[2]


def _lumpy() -> Problem:
    """Two heavy groups that pass rows to each other: together they upset the balance beyond any maxLD."""
    load = [40.0, 40.0, 2.0, 2.0]
    return problem([0, 1, 0, 1], nodes=2, load=load, edges=[(0, 1, 5.0)], saved=0.1, budget=2, operator=[0, 1, 0, 1])


def test_place_when_a_pair_upsets_balance_then_corrected_only_balances() -> None:
    given = _lumpy()
    literal = place(given, options=LITERAL)
    corrected = place(given, options=CORRECTED)
    assert given.distance(literal.node) > 10
    assert given.distance(corrected.node) <= 10
    assert "maxPL 0" in corrected.stage


def test_place_when_collocation_saves_load_then_corrected_counts_it() -> None:
    # fixed loads say that the pair is 12 points too much for a node; half of it is saved once they are together
    load = [24.0, 24.0, 24.0]
    edges = [(0, 1, 12.0)]
    given = problem([0, 1, 1], nodes=2, load=load, edges=edges, saved=1.0, budget=3, operator=[0, 1, 1])
    corrected = place(given, options=CORRECTED)
    assert given.distance(corrected.node) == 0.0
    assert collocation(given, corrected.node) == 1.0


def test_improve_when_the_emptier_node_is_marked_then_corrected_avoids_it() -> None:
    given = problem([0, 1, 0], nodes=2, edges=[(0, 1, 5.0)], budget=2, removed=[1], operator=[0, 1, 0])
    apart = np.array([True])
    units = np.arange(3)
    assert improve(given, units, apart, LITERAL, 0).node == 1
    assert improve(given, units, apart, CORRECTED, 0).node == 0


def test_improve_when_one_group_is_in_a_unit_then_the_other_joins_it() -> None:
    given = problem([0, 0, 0, 0, 1], nodes=2, edges=[(0, 1, 9.0), (1, 4, 5.0)], budget=4, operator=[0, 1, 2, 2, 2])
    units = np.array([0, 0, 1, 2, 3])
    assert improve(given, units, np.array([False, True]), CORRECTED, 0).node == 0


def test_heavy_when_all_is_spread_evenly_then_albic_only_balances() -> None:
    rng = np.random.default_rng(2)
    edges = [(k, j, 1.0) for k in range(6) for j in range(6, 12)]
    given = problem(rng.integers(0, 3, 12), nodes=3, edges=edges, saved=0.01, budget=3, operator=[0] * 6 + [1] * 6)
    assert not heavy(given).any()
    assert ", 0 pairs asked" in place(given, options=CORRECTED).stage


def test_place_when_the_milp_solves_then_the_plan_is_as_valid() -> None:
    given = pairs(6, 3, 3)
    plan = place(given, options=LIVE)
    assert given.spent(plan.node) <= 3
    assert given.flows.near(plan.node).any()
