"""The paper's program, with its corrections."""

import numpy as np
import pytest
from hypothesis import given

from millrace.optimizers.albic.paper.milp import solve
from tests.examples import examples
from tests.optimizers.albic.instances import least_distance, problem, problems

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


def test_plan_when_a_node_is_twice_the_mean_then_exists():
    assert TWICE_THE_MEAN.distance(solve(TWICE_THE_MEAN).node) == 60


def test_plan_when_the_mean_is_no_whole_number_then_is_even():
    posed = problem([2.51] * 20, [0] * 10 + [1] * 10, 2, 5)

    assert posed.distance(solve(posed).node) == pytest.approx(0, abs=1e-4)


def test_lemma_1_when_a_removed_node_is_empty_then_it_stays_empty():
    assert not LEMMA_1.removed[solve(LEMMA_1).node].any()


def test_lemma_2_when_a_heavy_group_fixes_d_then_drains_all_the_same():
    assert not LEMMA_2.removed[solve(LEMMA_2).node].any()
