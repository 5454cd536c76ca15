import numpy as np
from hypothesis import given

from benchmarks.albic.rivals.flux import balance
from millrace.optimizers.albic.balancer import balance as ours
from tests.examples import examples
from tests.optimizers.albic.instances import problem, problems, uneven


@examples(50)
@given(problems())
def test_flux_plan_keeps_the_budget_and_avoids_removed_nodes(posed):
    plan = balance(posed)

    assert (plan.node >= 0).all()
    assert posed.spent(plan.node) <= posed.budget + 1e-6
    assert not posed.removed[plan.node[plan.node != posed.node]].any()
    left = (posed.node >= 0) & posed.removed[posed.node]
    assert (plan.node[left] == posed.node[left]).all()


def test_round_moves_the_biggest_suitable_group_from_hot_to_cold():
    # 12 would swap the nodes' parts, 9 is the biggest that evens them
    posed = problem([12.0, 9.0, 1.0, 11.0], [0, 0, 0, 1], 2, 1)

    assert balance(posed).node.tolist() == [0, 1, 0, 1]


def test_round_pairs_the_second_hottest_with_the_second_coldest():
    posed = problem([10.0, 10.0, 8.0, 8.0, 4.0, 2.0], [0, 0, 1, 1, 2, 3], 4, 2)

    plan = balance(posed)

    assert np.flatnonzero(plan.node == 3).tolist() in ([0, 5], [1, 5])
    assert sorted(plan.node[[2, 3]].tolist()) == [1, 2]


def test_plan_is_as_good_as_ours_on_the_same_problem():
    for seed in range(4):
        posed = uneven(10, 10, 6, seed)
        assert posed.distance(ours(posed).node) <= posed.distance(balance(posed).node) + 1e-9
