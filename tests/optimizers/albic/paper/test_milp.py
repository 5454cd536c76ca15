"""The paper's program: each correction, and the behaviour of the literal text without it."""

import numpy as np
import pytest
from hypothesis import given

from millrace.optimizers.albic.paper.milp import LITERAL, Formulation, Status, literal, solve
from tests.examples import examples
from tests.optimizers.albic.instances import least_distance, problem, problems, uneven

LEMMA_1 = problem([12.0] * 5 + [45.0, 45.0], [0] * 5 + [1, 2], 4, 1, removed=[3])
LEMMA_2 = problem([80.0, 40.0, 40.0, 40.0, 6.0], [0, 1, 2, 3, 4], 5, 1, removed=[4])
TWICE_THE_MEAN = problem([30.0, 30.0, 30.0, 30.0], [0, 0, 0, 0], 4, 1)


@examples(25)
@given(problems(groups=5, nodes=3))
def test_milp_plan_is_valid_and_no_better_than_the_best(posed):
    plan = solve(posed)
    best = least_distance(posed)

    assert (plan.node >= 0).all()
    assert not posed.removed[plan.node[plan.node != posed.node]].any()
    assert posed.spent(plan.node) <= posed.budget + 1e-6
    assert plan.bound <= best + 1e-6
    if not posed.removed.any() and posed.caps is None:
        assert posed.distance(plan.node) <= best + 1e-5


def test_plan_when_pinned_then_keeps_the_pins():
    posed = problem([5.0] * 6, [0, 0, 0, 0, 1, 1], 2, 2)

    plan = solve(posed, pinned=np.array([1, -1, -1, -1, -1, -1]))

    assert plan.node[0] == 1
    assert posed.distance(plan.node) == 0


def test_second_phase_tightens_the_other_side_at_the_same_distance():
    # the giant fixes d; the others can be even at the cost of a move that does not change it
    posed = problem([60.0, 5.0, 5.0, 5.0, 5.0], [0, 1, 1, 1, 1], 3, 2)

    assert np.bincount(solve(posed).node, minlength=3).tolist() == [1, 2, 2]


def test_weights_when_slacks_have_any_sign_then_literal_is_meaningless():
    posed = uneven(4, 5, 2, 0)

    assert literal(posed, Formulation(weights=(1.0, 1.0), signed=True)).status is Status.UNBOUNDED
    # far apart weights: d is 0 whatever the loads, and negative slacks compensate for it
    heavy = literal(posed, Formulation(weights=(1000.0, 1.0), signed=True))
    assert heavy.d == pytest.approx(0, abs=1e-6)
    assert heavy.upper < -0.1 or heavy.lower < -0.1
    held = literal(posed, Formulation())
    assert held.d == pytest.approx(posed.distance(held.node), abs=1e-4)
    assert 0 <= held.upper <= held.d
    assert 0 <= held.lower <= held.d


def test_floor_when_a_node_is_twice_the_mean_then_literal_has_no_plan():
    assert literal(TWICE_THE_MEAN, Formulation(floor=True)).status is Status.INFEASIBLE
    assert literal(TWICE_THE_MEAN, Formulation()).status is Status.SOLVED
    assert TWICE_THE_MEAN.distance(solve(TWICE_THE_MEAN).node) == 60


def test_mean_when_rounded_up_then_literal_sees_a_false_distance():
    posed = problem([2.51] * 20, [0] * 10 + [1] * 10, 2, 5)

    assert literal(posed, Formulation(rounded_mean=True)).d == pytest.approx(0.9, abs=1e-4)
    assert literal(posed, Formulation()).d == pytest.approx(0, abs=1e-4)


def test_lemma_1_when_a_removed_node_is_empty_then_literal_fills_it():
    into = literal(LEMMA_1, Formulation(into_removed=True, drains=False))

    assert LEMMA_1.removed[into.node].sum() == 1
    assert not LEMMA_1.removed[solve(LEMMA_1).node].any()


def test_lemma_2_when_a_heavy_group_fixes_d_then_literal_never_drains():
    assert LEMMA_2.removed[literal(LEMMA_2, Formulation(drains=False)).node].sum() == 1
    assert LEMMA_2.removed[literal(LEMMA_2, LITERAL).node].sum() == 1
    assert not LEMMA_2.removed[solve(LEMMA_2).node].any()
